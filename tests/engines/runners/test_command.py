"""Any program as an agent: which protocol it speaks, what is made of what it says, and what hostile output comes to."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.core.errors import Invalid
from holdfast.engines.runners.base import CanResume, RunnerFailed, Said, Thought, ToolEnded, ToolStarted, TurnOver
from holdfast.engines.runners.command import CommandRunner
from holdfast.engines.runtime.base import RunLimits
from tests.support.agents.workshop import AtWork, Workshop, workshop
from tests.support.sandbox.programs import PYTHON

pytestmark = pytest.mark.slow

BEGIN = """
import json, os, sys
def tell(message, **more):
    print(json.dumps({**message, **more}), flush=True)
def hear():
    line = sys.stdin.readline()
    return json.loads(line) if line else sys.exit()
def rpc(**message):
    tell({"jsonrpc": "2.0"}, **message)
def update(**update):
    rpc(method="session/update", params={"sessionId": "s1", "update": update})
"""
LINE_JSON = """
start = hear()
while start.get("type") != "start":
    start = hear()
tell({"type": "can_resume", "token": "t1"})
tell({"type": "said", "text": "I have " + start["prompt"] + " of " + ",".join(start["servers"])})
tell({"type": "thought", "text": "hm"})
tell({"type": "tool_started", "call_id": "1", "name": "look", "arguments": {"at": "it"}})
tell({"type": "tool_ended", "call_id": "1", "ok": True, "text": "seen"})
tell({"type": "something new"})
tell({"type": "turn_over", "reason": "done", "text": "end"})
while True:
    heard = hear()
    tell({"type": "turn_over", "reason": "done", "text": heard["text"]})
"""
ACP = """
assert hear()["method"] == "initialize"
rpc(id=0, result={"protocolVersion": 1, "agentCapabilities": {"loadSession": LOADS}})
opened = hear()
assert opened["params"]["mcpServers"][0]["name"] == "harbour"
if opened["method"] == "session/load":
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "an old answer"})
rpc(id=opened["id"], result={"sessionId": "s1"})
prompt = hear()
said = " / ".join(part["text"] for part in prompt["params"]["prompt"])
update(sessionUpdate="agent_thought_chunk", content={"type": "text", "text": "hm"})
update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "I heard "})
update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": said})
update(sessionUpdate="tool_call", toolCallId="c1", title="look", status="pending")
options = [{"optionId": "no", "kind": "reject_once"}, {"optionId": "yes", "kind": "allow_once"}]
rpc(id="ask", method="session/request_permission", params={"sessionId": "s1", "toolCall": {}, "options": options})
answer = hear()
rpc(id="file", method="fs/read_text_file", params={"path": "/etc/passwd"})
refused = hear()["error"]["code"]
told = {"type": "text", "text": json.dumps([answer["result"]["outcome"], refused])}
update(sessionUpdate="tool_call_update", toolCallId="c1", status="completed", rawInput={"at": "it"},
       content=[{"type": "content", "content": told}])
rpc(id=prompt["id"], result={"stopReason": "end_turn"})
hear()
"""


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Workshop]:
    async with workshop(tmp_path, "http://127.0.0.1:1/v1", "key") as made:
        yield made


async def started(
    shop: Workshop, program: str, *, speaks: tuple[str, ...] = (), prompt: str = "a task", resume: str | None = None
) -> AtWork:
    (shop.worktree / "agent.py").write_text(BEGIN + program)
    runner = CommandRunner((*speaks, PYTHON, "-I", "/work/agent.py"))
    return await shop.start(runner, prompt, resume=resume)


@pytest.mark.parametrize("speaks", [("line-json",), ()])
async def test_a_program_of_our_own_protocol_is_understood(shop: Workshop, speaks: tuple[str, ...]) -> None:
    program = LINE_JSON if speaks else 'tell({"type": "ready"})\n' + LINE_JSON
    agent = await started(shop, program, speaks=speaks)
    await agent.turn()
    assert agent.told.events == [
        CanResume("t1"),
        Said("I have a task of harbour"),
        Thought("hm"),
        ToolStarted("1", "look", '{"at": "it"}'),
        ToolEnded("1", True, "seen"),
        TurnOver("done", "end"),
    ]
    await agent.driving.send("more")
    assert await agent.turn() == TurnOver("done", "more")


@pytest.mark.parametrize("speaks", [("acp",), ()])
async def test_a_program_of_acp_is_understood_and_may_do_what_it_asks(shop: Workshop, speaks: tuple[str, ...]) -> None:
    agent = await started(shop, ACP.replace("LOADS", "False"), speaks=speaks)
    await agent.turn()
    answered = '[{"outcome": "selected", "optionId": "yes"}, -32601]'
    assert agent.told.events == [
        CanResume("s1"),
        Thought("hm"),
        Said("I heard ", whole=False),
        Said("You keep the harbour's papers. / a task", whole=False),
        Said("", whole=True),
        ToolStarted("c1", "look", '{"at": "it"}'),
        ToolEnded("c1", True, answered),
        TurnOver("done", ""),
    ]


async def test_an_acp_program_goes_on_without_telling_the_past_again(shop: Workshop) -> None:
    agent = await started(shop, ACP.replace("LOADS", "True"), resume="s1")
    await agent.turn()
    assert "an old answer" not in agent.told.text
    assert "I heard a task" in agent.told.text


async def test_an_acp_program_that_can_not_go_on_says_so(shop: Workshop) -> None:
    with pytest.raises(RunnerFailed, match="can't go on with an earlier conversation"):
        await started(shop, ACP.replace("LOADS", "False"), resume="s1")


HOSTILE = {
    "ends at once": ("sys.exit(3)", "ended before it answered initialize.*status 3"),
    "ends with last words": ("print('no key', file=sys.stderr); sys.exit(1)", "Its last words: no key"),
    "ends in its work": ("tell({'type': 'ready'}); hear(); hear(); sys.exit(0)", "ended in the middle of its work"),
    "is killed by a signal": ("tell({'type': 'ready'}); hear(); hear(); os.abort()", "ended in the middle of its work"),
    "writes no JSON": ("print('{nonsense')", "broke its protocol: it is not JSON"),
    "writes bytes": ('os.write(1, b\'{"a": "\\xff"}\\n\')', "broke its protocol: it is not JSON"),
    "says a thing twice": ('print(\'{"type": "ready", "type": "said"}\')', "stands twice"),
    "writes NaN": ("print('{\"type\": NaN}')", "broke its protocol"),
    "nests deeply": ("print('{\"a\":' + '[' * 100000 + ']' * 100000 + '}')", "nested more than"),
    "writes many values": ("print('{\"a\":[' + '[],' * 1000000 + '[]]}')", "more than 200,000 values"),
    "writes a line without end": ("\nwhile True: os.write(1, b'x' * 65536)", "a line of more than"),
    "chatters without end": ("\nwhile True: print('hello')", "prints text where only messages belong"),
    "speaks another protocol": ("tell({'type': 'hello'})", "speaks neither"),
    "gives no text": ("tell({'type': 'ready'}); tell({'type': 'said', 'text': 7})", "said.text is not text"),
    "gives no reason": (
        "tell({'type': 'ready'}); tell({'type': 'turn_over', 'reason': 'x'})",
        "turn_over.reason is 'x'",
    ),
    "refuses": (
        "hear(); rpc(id=0, result={'protocolVersion': 1}); hear(); rpc(id=1, error={'code': 1, 'message': 'no room'})",
        "refused session/new: no room",
    ),
    "does not read": ("import time; tell({'type': 'ready'}); time.sleep(600)", "does not read what it is sent"),
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_an_agent_that_breaks_its_protocol_fails_with_the_reason(shop: Workshop, what: str) -> None:
    program, told = HOSTILE[what]
    with pytest.raises(RunnerFailed, match=told):
        agent = await started(
            shop, f"{program}\nsys.stdout.flush()\n", prompt="x" * 8_000_000 if "read" in what else "x"
        )
        if "read" in what:
            await agent.driving.send("and more")
        await agent.turn()


async def test_no_escape_of_a_terminal_or_a_page_comes_out_of_an_agent(shop: Workshop) -> None:
    evil = r"a\x1b]0;title\x07b\x1b[2Jc\x1bP+q\x1b\\d\x9b31me\x00f\u202eg\r\nh\x08"
    program = f"""
tell({{"type": "ready"}}); hear(); hear()
evil = "{evil}"
tell({{"type": "said", "text": evil}})
tell({{"type": "tool_started", "call_id": evil, "name": evil, "arguments": {{"a": evil}}}})
tell({{"type": "tool_ended", "call_id": evil, "ok": True, "text": evil}})
print(evil, file=sys.stderr, flush=True)
os.abort()
"""
    agent = await started(shop, program)
    with pytest.raises(RunnerFailed) as failed:
        await agent.rest()
    said, began, ended = agent.told.events
    assert isinstance(said, Said) and said.text == "abcd31mefg\nh"
    assert isinstance(began, ToolStarted) and isinstance(ended, ToolEnded)
    for text in (said.text, began.call_id, began.name, began.arguments, ended.call_id, ended.text, str(failed.value)):
        assert all(each == "\n" or each.isprintable() for each in text), text


async def test_what_an_agent_says_at_length_is_cut_and_said_to_be(shop: Workshop) -> None:
    program = """
tell({"type": "ready"}); hear(); hear()
tell({"type": "said", "text": "x" * 1000000})
tell({"type": "tool_started", "call_id": "1" * 9999, "name": "n" * 9999, "arguments": {"a": "x" * 1000000}})
tell({"type": "tool_ended", "call_id": "1", "ok": True, "text": "x" * 1000000})
tell({"type": "turn_over", "reason": "done", "text": "x" * 1000000})
hear()
"""
    agent = await started(shop, program)
    await agent.turn()
    said, began, ended, over = agent.told.events
    assert isinstance(said, Said) and isinstance(over, TurnOver)
    assert isinstance(began, ToolStarted) and isinstance(ended, ToolEnded)
    texts = (said.text, began.call_id, began.name, began.arguments, ended.text, over.text)
    most = (201_000, 300, 300, 5_000, 21_000, 201_000)
    assert all(len(text) < length for text, length in zip(texts, most, strict=True))
    assert said.text.endswith("[800,000 characters were left out]")


async def test_a_limit_is_named_when_the_agent_hits_it(shop: Workshop) -> None:
    shop.limits = RunLimits(memory_bytes=128 << 20, processes=64)
    agent = await started(shop, "tell({'type': 'ready'}); hear(); hear(); held = b'x' * (600 << 20); hear()")
    with pytest.raises(RunnerFailed, match=r"more than 128 MiB of memory|MemoryError"):
        await agent.turn()


@pytest.mark.parametrize("command", [(), ("acp",), ("line-json",), ("",)])
def test_a_command_without_a_program_is_refused_by_its_field(command: tuple[str, ...]) -> None:
    with pytest.raises(Invalid) as invalid:
        CommandRunner(command)
    assert invalid.value.fields[0].field == "command"
