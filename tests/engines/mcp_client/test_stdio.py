"""Calling MCP servers over stdio, in the sandbox: well-behaved ones, and one that does what a server must not do."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from holdfast.core.errors import Invalid
from holdfast.engines.mcp_client.base import CallRefused, ServerFailed
from holdfast.engines.mcp_client.stdio import open_stdio
from holdfast.engines.runtime.base import RunLimits
from holdfast.engines.runtime.process import ProcessRuntime
from tests.support.sandbox.programs import hostile

pytestmark = pytest.mark.slow


@pytest.fixture
async def runtime() -> AsyncIterator[ProcessRuntime]:
    runtime = ProcessRuntime()
    yield runtime
    await runtime.close()


async def failing_call(runtime: ProcessRuntime, mode: str, memory_bytes: int = 1 << 30) -> str:
    """What a caller is told when the server misbehaves in the middle of a call; the server is gone afterwards."""
    connection = await open_stdio(runtime, hostile(mode, limits=RunLimits(memory_bytes)))
    try:
        with pytest.raises(ServerFailed) as failed:
            await asyncio.wait_for(connection.call("echo", {"text": "x"}), 60)
        assert connection.closed
        with pytest.raises(ServerFailed):
            await connection.call("echo", {"text": "again"})
        return failed.value.message
    finally:
        await connection.close()


async def test_a_well_behaved_server_is_described_and_called(runtime: ProcessRuntime) -> None:
    connection = await open_stdio(runtime, hostile("plain"))
    described = await connection.describe()
    assert described.server_info["name"] == "hostile" and described.protocol == "2025-11-25"
    [tool] = described.tools
    assert (tool.name, tool.description, tool.annotations) == ("echo", "Says it back", {"readOnlyHint": True})
    result = await connection.call("echo", {"text": "hello"})
    assert result.content == ({"type": "text", "text": "hello"},) and not result.is_error
    await connection.close()
    assert connection.closed


async def test_a_server_that_knows_only_the_newer_revision_is_called_as_well(runtime: ProcessRuntime) -> None:
    connection = await open_stdio(runtime, hostile("stateless"))
    described = await connection.describe()
    assert (described.protocol, described.server_info) == ("2026-07-28", {"name": "stateless"})
    assert (await connection.call("echo", {"text": "x"})).content[0]["text"] == "x"
    await connection.close()


async def test_an_answer_in_the_moment_its_caller_gives_up_is_no_offence(
    runtime: ProcessRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    connection = await open_stdio(runtime, hostile("plain"))
    calling = asyncio.create_task(connection.call("echo", {"text": "x"}))
    await asyncio.sleep(0)
    calling.cancel()
    # Read before the call has had its turn to be cancelled in.
    connection._answer({"id": connection._next_id, "result": {}})
    assert "never made" not in caplog.text and connection._unasked == 0
    await asyncio.wait({calling})
    await connection.close()


async def test_calls_at_once_get_each_its_own_answer(runtime: ProcessRuntime) -> None:
    connection = await open_stdio(runtime, hostile("plain"))
    answers = await asyncio.gather(*(connection.call("echo", {"text": str(index)}) for index in range(200)))
    assert [answer.content[0]["text"] for answer in answers] == [str(index) for index in range(200)]
    await connection.close()


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("exit", "ended by itself with status 3. Its last words: the disk is on fire"),
        ("flood", "prints text where only messages belong"),
        ("flood-messages", "messages that nobody asked for"),
        ("endless-line", "a message is longer than 16,777,216 bytes"),
        ("half", "it ended in the middle of a message"),
        ("cr", "a carriage return stands inside a message"),
        ("twins", "a member stands twice in one object"),
        ("huge", "a message is longer than 16,777,216 bytes"),
    ],
)
async def test_a_server_that_breaks_the_protocol_is_stopped_and_named(
    runtime: ProcessRuntime, mode: str, told: str
) -> None:
    message = await failing_call(runtime, mode)
    assert message.startswith("hostile ") and told in message


async def test_a_server_that_eats_memory_is_stopped_and_named(runtime: ProcessRuntime) -> None:
    message = await failing_call(runtime, "memory", 128 << 20)
    assert "It was stopped because it used more than 128 MiB of memory." in message


async def test_results_that_are_none_fail_the_call_alone(runtime: ProcessRuntime) -> None:
    connection = await open_stdio(runtime, hostile("wrong-shape"))
    with pytest.raises(ServerFailed, match="content that is not a list of parts"):
        await connection.call("echo", {})
    assert not connection.closed
    await connection.close()


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("many-tools", "more than 1,000 tools"),
        ("endless-pages", "over pages without end"),
        ("same-page", "over pages without end"),
        ("twin-tools", "two tools named 'echo'"),
    ],
)
async def test_absurd_lists_of_tools_are_refused(runtime: ProcessRuntime, mode: str, told: str) -> None:
    connection = await open_stdio(runtime, hostile(mode))
    with pytest.raises(ServerFailed, match=told):
        await connection.describe()
    await connection.close()


async def test_a_server_that_changes_its_tools_is_noticed(runtime: ProcessRuntime) -> None:
    changed = asyncio.Event()

    async def note() -> None:
        changed.set()

    connection = await open_stdio(runtime, hostile("changing-tools"), tools_changed=note)
    before = await connection.describe()
    await connection.call("echo", {"text": "x"})
    await asyncio.wait_for(changed.wait(), 10)
    assert (await connection.describe()).tools != before.tools
    await connection.close()


async def test_a_server_is_given_nothing_of_ours_to_sample_list_or_ask(runtime: ProcessRuntime) -> None:
    connection = await open_stdio(runtime, hostile("asks"))
    answers = json.loads((await connection.call("echo", {})).content[0]["text"])
    assert answers == {
        "sampling/createMessage": -32601,
        "roots/list": -32601,
        "elicitation/create": -32601,
        "no/such": -32601,
        "ping": "taken",
    }
    assert "declined sampling/createMessage" in connection.logs()
    await connection.close()


async def test_answers_to_requests_that_were_never_made_reach_nobody(runtime: ProcessRuntime) -> None:
    connection = await open_stdio(runtime, hostile("other-ids"))
    first = asyncio.create_task(connection.call("echo", {"text": "one"}))
    second = asyncio.create_task(connection.call("echo", {"text": "two"}))
    assert (await first).content[0]["text"] == "one"
    # The server may answer a call of another caller before its time; it is that call's server as well.
    assert (await second).content[0]["text"] in ("two", "for somebody else")
    await connection.close()


async def test_a_server_that_never_answers_is_given_up_and_told(runtime: ProcessRuntime) -> None:
    connection = await open_stdio(runtime, hostile("plain"), answer_seconds=0.2)
    with pytest.raises(ServerFailed, match=r"did not answer tools/call within 0\.2 seconds"):
        await connection.call("echo", {"text": "never"})
    assert not connection.closed
    await connection.close()
    assert "cancelled" in connection.logs()


async def test_cancelling_the_task_cancels_the_call_at_the_server(runtime: ProcessRuntime) -> None:
    connection = await open_stdio(runtime, hostile("plain"))
    call = asyncio.create_task(connection.call("echo", {"text": "never"}))
    assert (await connection.call("echo", {"text": "x"})).content[0]["text"] == "x"
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await connection.call("echo", {"text": "on"})).content[0]["text"] == "on"
    await connection.close()
    assert "cancelled" in connection.logs()


async def test_a_server_that_floods_its_log_is_answered_and_ended_all_the_same(runtime: ProcessRuntime) -> None:
    connection = await open_stdio(runtime, hostile("flood-stderr"))
    for _ in range(50):
        assert (await connection.call("echo", {"text": "x"})).content[0]["text"] == "x"
    assert len(connection.logs()) <= 16_384
    await connection.close()


async def test_a_server_that_ignores_its_end_is_ended(runtime: ProcessRuntime) -> None:
    connection = await open_stdio(runtime, hostile("ignores-end"))
    await connection.close()
    assert connection.closed and "was stopped" in (await connection._running.wait()).said


async def test_text_before_the_protocol_is_noise_and_kept_for_the_log(runtime: ProcessRuntime) -> None:
    connection = await open_stdio(runtime, hostile("banner"))
    assert (await connection.call("echo", {"text": "x"})).content[0]["text"] == "x"
    assert "Welcome to the server!" in connection.logs()
    await connection.close()


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("dies", "ended by itself with status 7. Its last words: no license key"),
        ("silent", "did not answer within 2 seconds of its start"),
        ("old", "speaks revision '1999-01-01' of MCP"),
    ],
)
async def test_a_server_that_does_not_begin_is_named_with_its_last_words(
    runtime: ProcessRuntime, mode: str, told: str
) -> None:
    with pytest.raises(ServerFailed) as failed:
        await open_stdio(runtime, hostile(mode), start_seconds=2 if mode == "silent" else 60)
    assert told in failed.value.message


async def test_what_a_server_prints_of_its_secrets_is_in_no_log_and_no_error(
    runtime: ProcessRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ServerFailed) as failed:
        await open_stdio(runtime, hostile("dies", secrets=frozenset({"license key"})))
    assert failed.value.message.endswith("Its last words: no [secret]")
    assert "no [secret]" in caplog.text and "license key" not in caplog.text


async def test_a_server_that_writes_and_never_reads_is_stopped(runtime: ProcessRuntime) -> None:
    connection = await open_stdio(runtime, hostile("deaf"))
    with pytest.raises(ServerFailed):
        await asyncio.wait_for(connection.call("echo", {"text": "x"}), 60)
    await connection.close()


async def test_an_error_of_the_protocol_is_the_calls_alone_and_carries_its_code(runtime: ProcessRuntime) -> None:
    connection = await open_stdio(runtime, hostile("plain"))
    with pytest.raises(Invalid, match="arguments"):
        await connection.call("echo", {"text": "\ud800"})
    assert not connection.closed and not issubclass(CallRefused, Invalid)
    await connection.close()
