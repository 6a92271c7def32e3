"""Claude Code, Codex, opencode and goose, real and unchanged, in the real sandbox: tasks, interrupts, resuming."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.engines.runners.base import AgentRunner, ServerEntry, ToolStarted
from tests.fakes.llm import anthropic, openai_chat, openai_responses
from tests.fakes.llm.script import Script, Step
from tests.support.agents.installed import installed_runner
from tests.support.agents.workshop import Workshop, workshop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400), pytest.mark.contract("XA-11")]

NOTE = "turquoise, 40 metres"


@dataclass(frozen=True)
class Kind:
    """What one agent calls its tools, and which wire it speaks."""

    wire: Any
    key: str
    shell: str
    shell_argument: str

    def step(self, command: str) -> Step:
        more = {"description": "A step"} if self.shell.lower() == "bash" else {}
        return Step(self.shell, {self.shell_argument: command, **more})


KINDS = {
    "claude-code": Kind(anthropic.anthropic, anthropic.KEY, "Bash", "command"),
    "codex": Kind(
        lambda script: openai_responses.openai_responses(script, "harbour"), openai_responses.KEY, "exec_command", "cmd"
    ),
    "opencode": Kind(openai_chat.openai_chat, openai_chat.KEY, "bash", "command"),
    "goose": Kind(openai_chat.openai_chat, openai_chat.KEY, "shell", "command"),
}


@dataclass
class Task:
    """One agent with its place and its model."""

    runner: AgentRunner
    kind: Kind
    shop: Workshop
    script: Script

    def follow(self, *steps: Step) -> None:
        self.script.steps = steps


@pytest.fixture(params=list(KINDS))
async def task(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Task]:
    name = request.param
    runner = installed_runner(name, tmp_path / "programs")
    kind, script = KINDS[name], Script(())
    async with kind.wire(script) as model, workshop(tmp_path / "shop", model.url, kind.key) as shop:
        yield Task(runner, kind, shop, script)


async def test_it_speaks_calls_a_server_writes_commits_and_ends(task: Task) -> None:
    task.follow(
        task.kind.step(f"printf %s '{NOTE}' > crane.txt"),
        Step("count", {"name": "crane"}),
        Step("add", {"left": 40, "right": 2}),
        task.kind.step("git add -A && git commit -qm 'Note the crane' && git log -1 --format=%an"),
    )
    agent = await task.shop.start(task.runner, "Note the crane.")
    over = await agent.turn()
    told = agent.told
    assert over.reason == "done", (over, agent.running.stderr_tail())
    assert task.script.problems == []
    results = task.script.results
    assert len(results) == 4, (sorted(task.script.offered), results)
    assert "42" in results[2]
    assert "Holdfast agent" in results[3]
    assert task.shop.counted() == ["count crane"]
    assert task.shop.git("show", "HEAD:crane.txt") == NOTE
    assert task.shop.git("status", "--porcelain") == ""
    assert task.script.final in told.text
    assert len(told.calls) == len(told.results) == 4
    assert all(result.ok for result in told.results), told.results
    assert any("add" in call.name and json.loads(call.arguments) == {"left": 40, "right": 2} for call in told.calls)
    assert any("You keep the harbour's papers." in text for text in task.script.texts)
    await agent.driving.send("And again.")
    assert (await agent.turn()).reason == "done"
    assert "And again." in task.script.texts[-1]
    assert (await agent.running.stop()).how == "stopped"
    await agent.rest()


async def test_it_is_interrupted_and_resumed_in_a_new_process(task: Task) -> None:
    task.follow(task.kind.step("touch began; sleep 600"))
    first = await task.shop.start(task.runner, "Remember the turquoise crane.")
    await first.until(lambda event: isinstance(event, ToolStarted))
    await first.driving.interrupt()
    assert (await first.turn()).reason == "interrupted"
    task.follow()
    await first.driving.send("What do you remember?")
    assert (await first.turn()).reason == "done"
    await first.running.stop(0)
    second = await task.shop.start(task.runner, "Go on with it.", resume=first.told.token)
    assert (await second.turn()).reason == "done"
    assert task.script.problems == []
    last = task.script.texts[-1]
    assert "Remember the turquoise crane." in last and "Go on with it." in last
    assert task.script.final in second.told.text
    assert second.told.calls == []


async def test_its_first_question_offers_the_tools_of_a_server_that_starts_slowly(task: Task) -> None:
    entry = task.shop.assignment.servers["harbour"]
    line = f"sleep 4; exec {' '.join((entry.command, *entry.args))}"
    task.shop.assignment = replace(task.shop.assignment, servers={"harbour": ServerEntry("/bin/sh", ("-c", line))})
    task.follow(Step("add", {"left": 40, "right": 2}))
    agent = await task.shop.start(task.runner, "Count.")
    assert (await agent.turn()).reason == "done"
    assert "42" in task.script.results.get(0, ""), sorted(task.script.offered)


async def test_what_is_said_while_it_works_is_heard_before_it_says_that_it_is_done(task: Task) -> None:
    task.follow(task.kind.step("while [ ! -e go ]; do sleep 0.1; done"))
    agent = await task.shop.start(task.runner, "Begin.")
    await agent.until(lambda event: isinstance(event, ToolStarted))
    await agent.driving.send("Turn left at the crane.")
    (task.shop.worktree / "go").touch()
    assert (await agent.turn()).reason == "done"
    assert task.script.problems == []
    assert "Turn left at the crane." in task.script.texts[-1]
