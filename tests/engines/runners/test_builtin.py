"""The built-in agent in the real sandbox, with a strict scripted model on its loopback and a real MCP server."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.engines.runners.base import RunnerFailed, Said, ToolStarted
from holdfast.engines.runners.builtin import BuiltinRunner
from tests.fakes.llm.model import KEY, FakeModel, Turn, calls, model, says
from tests.support.agents.workshop import Workshop, workshop

pytestmark = pytest.mark.slow


@pytest.fixture
async def upstream() -> AsyncIterator[FakeModel]:
    async with model() as made:
        yield made


@pytest.fixture
async def shop(tmp_path: Path, upstream: FakeModel) -> AsyncIterator[Workshop]:
    async with workshop(tmp_path, upstream.url, KEY) as made:
        yield made


def results(upstream: FakeModel) -> list[str]:
    """What the model was told of its calls, in its last request."""
    return [message["content"] for message in upstream.requests[-1]["messages"] if message["role"] == "tool"]


async def test_it_works_with_files_commands_git_and_a_server_and_ends(shop: Workshop, upstream: FakeModel) -> None:
    upstream.script = [
        says("I will note the crane."),
        calls(("write_file", {"path": "notes/crane.txt", "content": "grey, 40 metres\n"})),
        calls(("edit_file", {"path": "notes/crane.txt", "old_text": "grey", "new_text": "turquoise"})),
        calls(("read_file", {"path": "notes/crane.txt"}), ("list_files", {}), ("search_files", {"pattern": "turq"})),
        calls(("run_command", {"command": "wc -c < notes/crane.txt"})),
        calls(("mcp__harbour__add", {"left": 40, "right": 2}), ("mcp__harbour__count", {"name": "crane"})),
        calls(("git", {"arguments": ["add", "-A"]}), ("git", {"arguments": ["commit", "-qm", "Note the crane"]})),
        says("The crane is noted."),
    ]
    agent = await shop.start(BuiltinRunner(), "Hello.")
    assert (await agent.turn()).text == "I will note the crane."
    await agent.driving.send("Go on.")
    over = await agent.turn()
    assert (over.reason, over.text) == ("done", "The crane is noted.")
    assert upstream.refused == []
    told = results(upstream)
    assert told[2:7] == [
        "turquoise, 40 metres\n",
        "README.md\nnotes/crane.txt",
        "notes/crane.txt:1: turquoise, 40 metres",
        "21\n",
        "42",
    ]
    assert shop.counted() == ["count crane"]
    assert (
        shop.git("log", "-1", "--format=%s by %an", "--name-only")
        == "Note the crane by Holdfast agent\n\nnotes/crane.txt"
    )
    assert shop.git("status", "--porcelain") == ""
    assert [call.name for call in agent.told.calls][:2] == ["write_file", "edit_file"]
    assert all(result.ok for result in agent.told.results)
    system = upstream.requests[0]["messages"][0]
    assert system["role"] == "system" and "You keep the harbour's papers." in system["content"]
    assert (await agent.running.stop()).how == "stopped"
    await agent.rest()


async def test_what_goes_wrong_is_told_to_the_model_by_its_field(shop: Workshop, upstream: FakeModel) -> None:
    upstream.script = [
        calls(
            ("read_file", {"path": "missing.txt"}),
            ("read_file", {"path": "/etc"}),
            ("read_file", {"path": "/dev/zero"}),
            ("write_file", {"path": "/usr/x", "content": "x"}),
            ("write_file", {"path": "x"}),
            ("edit_file", {"path": "README.md", "old_text": "no such text", "new_text": ""}),
            ("run_command", {"command": "echo out; exit 3"}),
            ("run_command", {"command": 7}),
            ("git", {"arguments": []}),
            ("search_files", {"pattern": "("}),
            ("no_such_tool", {}),
            ("read_file", "not json"),
            ("mcp__harbour__fail", {}),
            ("mcp__harbour__die", {}),
            ("run_command", {"command": "setsid sleep 600 & echo started; sleep 600", "timeout_seconds": 1}),
            ("run_command", {"command": "setsid sleep 600 & echo left; exit 1"}),
        ),
        says("Nothing worked."),
    ]
    agent = await shop.start(BuiltinRunner(), "Try.")
    await agent.turn()
    told = results(upstream)
    for text, expected in zip(
        told,
        (
            "No such file or directory: /work/missing.txt",
            "path: /etc is a folder",
            "path: /dev/zero is not a plain file",
            "Read-only file system: /usr/x",
            "content: it is missing",
            "old_text: it does not stand in README.md",
            "out\n\n[exit status 3]",
            "command: 7 is not of type string",
            "arguments: it must be a list of texts",
            "pattern: missing ), unterminated subpattern",
            "There is no tool 'no_such_tool'",
            "The arguments are not JSON",
            "It went wrong.",
            "The server harbour: it ended",
            "started\n\n[stopped after 1 seconds]",
            "left\n\n[exit status 1]",
        ),
        strict=True,
    ):
        assert expected in text, (expected, text)
    assert not any(result.ok for result in agent.told.results)


async def test_a_flood_of_output_reaches_the_model_bounded(shop: Workshop, upstream: FakeModel) -> None:
    upstream.script = [
        calls(
            ("run_command", {"command": "echo first; head -c 300000000 /dev/zero | tr '\\0' x; echo; echo last"}),
            ("mcp__harbour__long", {"characters": 500_000}),
        ),
        says("That was long."),
    ]
    agent = await shop.start(BuiltinRunner(), "Flood.")
    await agent.turn()
    flood, long = results(upstream)
    assert len(flood) < 41_000 and flood.startswith("first\n") and flood.endswith("last\n")
    assert len(long) < 41_000
    assert all(len(result.text) < 21_000 for result in agent.told.results)


@pytest.mark.parametrize("busy", ["model", "command", "server"])
async def test_an_interrupt_ends_the_turn_at_once_and_keeps_the_conversation(
    shop: Workshop, upstream: FakeModel, busy: str
) -> None:
    waiting = {
        "model": says("Thinking about it for long.", pieces=5, stall_after=3),
        "command": calls(("run_command", {"command": "sleep 600"})),
        "server": calls(("mcp__harbour__slow", {"seconds": 600})),
    }[busy]
    upstream.script = [waiting, says("Here I am again.")]
    agent = await shop.start(BuiltinRunner(), "Begin.")
    await agent.until(lambda event: isinstance(event, ToolStarted if busy != "model" else Said))
    if busy == "server":
        await until_counted(shop, "slow ")
    await agent.driving.interrupt()
    assert (await agent.turn()).reason == "interrupted"
    await agent.driving.send("And now?")
    assert (await agent.turn()).text == "Here I am again."
    assert upstream.refused == []
    if busy == "server":
        await until_counted(shop, "cancelled ")


async def until_counted(shop: Workshop, line: str) -> None:
    async with asyncio.timeout(60):
        while line not in shop.counted():
            await asyncio.sleep(0.05)


async def test_what_is_said_while_it_works_is_read_before_its_next_step(shop: Workshop, upstream: FakeModel) -> None:
    def choose(body: dict[str, Any]) -> Turn:
        users = [message["content"] for message in body["messages"] if message["role"] == "user"]
        if len(users) == 2:
            return says(f"I was told: {users[1]}")
        return calls(("run_command", {"command": "while [ ! -e go ]; do sleep 0.05; done"}))

    upstream.choose = choose
    agent = await shop.start(BuiltinRunner(), "Begin.")
    await agent.until(lambda event: isinstance(event, ToolStarted))
    await agent.driving.send("Turn left.")
    (shop.worktree / "go").touch()
    assert (await agent.turn()).text == "I was told: Turn left."


async def test_it_goes_on_in_a_new_process_from_its_journal(shop: Workshop, upstream: FakeModel) -> None:
    upstream.script = [calls(("run_command", {"command": "sleep 600"})), says("We were at the crane.")]
    first = await shop.start(BuiltinRunner(), "Remember the crane.")
    await first.until(lambda event: isinstance(event, ToolStarted))
    await first.running.stop(0)
    second = await shop.start(BuiltinRunner(), "Go on.", resume=first.told.token)
    assert (await second.turn()).text == "We were at the crane."
    assert second.told.token == first.told.token
    assert upstream.refused == []
    said = [message["content"] for message in upstream.requests[-1]["messages"] if message["role"] == "user"]
    assert said == ["Remember the crane.", "Go on."]
    assert "broken off" in results(upstream)[0]


@pytest.mark.parametrize(
    ("token", "told"), [("../../etc/passwd", "is not the name"), ("0123456789abcdef", "is gone from the agent's home")]
)
async def test_a_conversation_that_is_not_there_is_no_silent_new_one(shop: Workshop, token: str, told: str) -> None:
    agent = await shop.start(BuiltinRunner(), "Go on.", resume=token)
    with pytest.raises(RunnerFailed, match=told):
        await agent.turn()


async def test_a_model_that_refuses_or_fails_ends_the_turn_with_the_reason(shop: Workshop, upstream: FakeModel) -> None:
    upstream.script = [
        Turn(status=400, body={"error": {"message": "The budget is spent."}}),
        says("Half an ans", cut_after=3),
        Turn(status=503, headers={"retry-after": "0"}),
        says("There."),
        says("x", finish_reason="length"),
        says("x", finish_reason="content_filter"),
    ]
    agent = await shop.start(BuiltinRunner(), "1")
    over = await agent.turn()
    assert over.reason == "error" and "The budget is spent." in over.text
    ends = []
    for text in ("2", "3", "4", "5"):
        await agent.driving.send(text)
        ends.append((await agent.turn()).reason)
    assert ends == ["error", "done", "limit", "refused"]
    assert upstream.refused == []


async def test_a_server_that_does_not_start_is_told_and_the_others_work(shop: Workshop, upstream: FakeModel) -> None:
    shop.assignment.servers["broken"] = type(shop.assignment.servers["harbour"])("/bin/false", ())  # type: ignore[index]
    upstream.script = [calls(("mcp__harbour__add", {"left": 1})), says("One.")]
    agent = await shop.start(BuiltinRunner(), "Count.")
    assert (await agent.turn()).text == "One."
    assert "The server broken did not start" in json.dumps(upstream.requests[0]["messages"][0])
