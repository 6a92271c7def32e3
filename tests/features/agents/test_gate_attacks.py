"""What an agent that wants out can do to the gate's sockets: nothing that reaches a tool, a session or us."""

import asyncio
import json
import logging
import os
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.engines.runtime.process import is_own_user
from holdfast.features.agents.gate import conversation, sockets
from holdfast.features.agents.gate.base import GatedSession
from tests.features.agents.conftest import GateHouse
from tests.support.agents.clients import RawClient

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":{}}}'
_BEGUN = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count","arguments":'
FORGED = {
    "a call behind carriage returns": b'{"jsonrpc":"2.0","id":1,"method":"ping","params":\r' + CALL + b"\r}",
    "a member twice": b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"count"}}',
    "a member twice, deep down": CALL.replace(b'"name"', b'"name":"add","name"'),
    "a batch": b"[" + CALL + b"]",
    "a member of nobody's": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count"},"x":1}',
    "a number that is none": _BEGUN + b'{"a":NaN}}}',
    "a mark at the beginning": b"\xef\xbb\xbf" + CALL,
    "no UTF-8": _BEGUN + b'{"a":"\xff"}}}',
    "half a character": _BEGUN + b'{"a":"\\ud800"}}}',
    "nested without end": _BEGUN + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}}",
    "an id that is two": b'{"jsonrpc":"2.0","id":1.0,"method":"tools/call","params":{"name":"count"}}',
    "no version": b'{"id":1,"method":"tools/call","params":{"name":"count"}}',
    "a request and an answer": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count"},"result":{}}',
    "arguments by place": b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["count"]}',
    "no JSON": b"GET / HTTP/1.1",
}


@asynccontextmanager
async def served(house: GateHouse) -> AsyncIterator[GatedSession]:
    session = house.session(await house.attached())
    async with house.open(session):
        yield session


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED.keys())
async def test_what_two_readers_could_read_otherwise_is_refused_and_named_in_the_log(
    house: GateHouse, forged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(house) as session:
        client = await RawClient.connect(house.socket(session, "demo"))
        with caplog.at_level(logging.WARNING, "holdfast.features.agents.gate"):
            await client.send(forged + b"\n")
            answer = await client.read()
        assert answer is not None and answer["error"]["code"] == -32700 and answer["id"] is None
        assert any(f"session {session.id}: a line to demo was refused" in each.message for each in caplog.records)
        # The same client goes on, and nothing was run.
        assert (await client.ask("ping"))["result"] == {}
        await client.close()
        assert house.server is not None and house.server.runs["count"] == 0


async def test_line_ends_of_unicode_in_arguments_stay_arguments(house: GateHouse) -> None:
    async with served(house) as session:
        client = await RawClient.connect(house.socket(session, "demo"))
        hidden = "\u2028" + CALL.decode() + "\u2029\x85"
        result = await client.call("count", name=hidden)
        assert result["isError"] is False
        assert house.server is not None and house.server.runs["count"] == 1
        await client.close()


async def test_a_line_that_never_ends_is_refused_without_being_held(house: GateHouse) -> None:
    async with served(house) as session:
        client = await RawClient.connect(house.socket(session, "demo"))
        for _ in range(2 * conversation.MAX_LINE_BYTES // 65_536):
            await client.send(b"x" * 65_536)
        answer = await client.read()
        assert answer is not None and "longer than" in answer["error"]["message"]
        await client.send(b"\n")
        assert (await client.ask("ping"))["result"] == {}
        await client.close()


async def test_whoever_goes_on_sending_what_is_no_message_is_hung_up_on(house: GateHouse) -> None:
    async with served(house) as session:
        client = await RawClient.connect(house.socket(session, "demo"))
        await client.send(b"{\n" * 1_000)
        answers = []
        while (answer := await client.read()) is not None:
            answers.append(answer)
        assert len(answers) == conversation.MOST_REFUSED
        await client.close()
        other = await RawClient.connect(house.socket(session, "demo"))
        assert (await other.ask("ping"))["result"] == {}
        await other.close()


async def test_more_calls_at_once_than_allowed_are_refused_and_the_others_end(house: GateHouse) -> None:
    async with served(house) as session:
        client = await RawClient.connect(house.socket(session, "demo"))
        slow = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "slow"}}
        extra = 5
        for number in range(conversation.MOST_AT_ONCE + extra):
            await client.send(json.dumps({**slow, "id": number}).encode() + b"\n")
        refused = [await client.read() for _ in range(extra)]
        assert all(each is not None and each["error"]["code"] == -32000 for each in refused)
        again = {**slow, "id": 0}
        await client.send(json.dumps(again).encode() + b"\n")
        twice = await client.read()
        assert twice is not None and twice["error"]["code"] == -32600
        assert house.server is not None
        house.server.go_on.set()
        ended = [await client.read() for _ in range(conversation.MOST_AT_ONCE)]
        assert sorted(each["id"] for each in ended if each is not None) == list(range(conversation.MOST_AT_ONCE))
        await client.close()


async def test_half_open_clients_take_places_of_one_socket_and_no_more(house: GateHouse) -> None:
    async with served(house) as session:
        path = house.socket(session, "demo")
        idle = [await RawClient.connect(path) for _ in range(sockets.MOST_CLIENTS)]
        for client in idle:
            await client.send(b'{"jsonrpc"')
        beyond = await RawClient.connect(path)
        assert await beyond.read() is None
        # The other socket of the session has places of its own.
        other = await RawClient.connect(house.socket(session, "x1agent"))
        assert (await other.ask("ping"))["result"] == {}
        await idle[0].close()
        async with asyncio.timeout(30):
            while True:
                fresh = await RawClient.connect(path)
                await fresh.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
                if await fresh.read() is not None:
                    break
                await asyncio.sleep(0.01)
        for client in (*idle[1:], other, beyond, fresh):
            await client.close()


async def test_a_client_that_never_reads_is_hung_up_on_and_holds_little(
    house: GateHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "_READING_SECONDS", 0.05)
    async with served(house) as session:
        deaf = await RawClient.connect(house.socket(session, "demo"))
        deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
        ask = {
            "jsonrpc": "2.0",
            "method": "tools/call",
            "params": {"name": "long", "arguments": {"characters": 900_000}},
        }
        with pytest.raises((ConnectionError, TimeoutError)):
            async with asyncio.timeout(60):
                for number in range(10_000):
                    await deaf.send(json.dumps({**ask, "id": number}).encode() + b"\n")
                    await asyncio.sleep(0)
        assert house.server is not None and house.server.runs["long"] < 100
        await deaf.close()
        other = await RawClient.connect(house.socket(session, "demo"))
        assert (await other.ask("ping"))["result"] == {}
        await other.close()


async def test_one_sessions_flood_leaves_another_session_served(house: GateHouse) -> None:
    async with served(house) as loud, served(house) as quiet:
        flooding = await RawClient.connect(house.socket(loud, "demo"))

        async def flood() -> None:
            while True:
                await flooding.send(b'{"jsonrpc":"2.0","method":"notifications/x"}\n' * 500)

        task = asyncio.create_task(flood())
        client = await RawClient.connect(house.socket(quiet, "demo"))
        for number in range(20):
            assert (await client.call("add", left=number))["structuredContent"] == {"total": number}
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await flooding.close()
        await client.close()


async def test_a_sessions_directory_and_sockets_are_its_own(house: GateHouse) -> None:
    async with served(house) as one, served(house) as other:
        assert house.socket(one, "demo").parent != house.socket(other, "demo").parent
        place = house.socket(one, "demo").parent
        root = os.geteuid() == 0
        assert stat.S_IMODE(place.stat().st_mode) == (0o755 if root else 0o700)
        assert stat.S_IMODE(house.socket(one, "demo").stat().st_mode) == (0o666 if root else 0o600)
        assert sorted(path.name for path in place.iterdir()) == ["demo.sock", "x1agent.sock"]


def test_only_we_and_those_whom_we_confine_may_connect() -> None:
    assert is_own_user(os.geteuid())
    assert not is_own_user(os.geteuid() + 12_345)
    assert is_own_user(1_900_000_000) == (os.geteuid() == 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
async def test_another_user_of_the_machine_is_refused_by_the_socket(house: GateHouse) -> None:
    house.directory.chmod(0o755)
    async with served(house) as session:
        path = house.socket(session, "demo")
        path.parents[1].chmod(0o755)
        program = (
            "import os, socket, sys; os.setresuid(65534, 65534, 65534); s = socket.socket(socket.AF_UNIX);"
            's.connect(sys.argv[1]); s.sendall(b\'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n\');'
            "print(s.recv(100))"
        )
        process = await asyncio.create_subprocess_exec(
            "/usr/bin/python3", "-c", program, str(path), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
        assert b"result" not in said


async def test_a_data_directory_with_a_long_name_is_no_problem(house: GateHouse) -> None:
    session = house.session(await house.attached())
    place = house.directory / ("d" * 120) / ("e" * 120)
    async with house.gates.open(session, place):
        descriptor = os.open(place / "mcp", os.O_PATH)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"/proc/self/fd/{descriptor}/demo.sock")
        os.close(descriptor)
