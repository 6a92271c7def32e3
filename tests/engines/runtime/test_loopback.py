"""Ports of a sandbox's own loopback that Holdfast answers: reachable inside, by nobody else, gone with the program."""

import asyncio
import json
import socket

import pytest

from holdfast.core.errors import Invalid
from holdfast.engines.runtime.base import RunSpec
from holdfast.engines.runtime.loopback import Connections, relay
from holdfast.engines.runtime.process import ProcessRuntime
from tests.support.sandbox.programs import PYTHON, interpreter, printed, shell

pytestmark = pytest.mark.slow

ASK = """
import json, socket, sys
answers = {}
for place in sys.argv[1:]:
    host, port = place.rsplit(":", 1)
    try:
        with socket.create_connection((host, int(port)), 20) as out:
            out.sendall(b"hello\\n")
            answers[place] = out.makefile().readline()
    except OSError as error:
        answers[place] = type(error).__name__
print(json.dumps(answers))
"""


def saying(name: str) -> Connections:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"{name} heard ".encode() + await reader.readline())
        await writer.drain()

    return Connections(answer)


def asker(*places: str, **fields: object) -> RunSpec:
    return RunSpec("asker", (PYTHON, "-I", "-c", ASK, *places), mounts=interpreter(), **fields)  # type: ignore[arg-type]


async def test_a_program_reaches_the_ports_that_are_served_and_no_other() -> None:
    runtime = ProcessRuntime()
    with socket.create_server(("127.0.0.1", 0)) as outside:
        elsewhere = f"127.0.0.1:{outside.getsockname()[1]}"
        spec = asker(
            "127.0.0.1:4711",
            "127.0.0.1:80",
            "localhost:4711",
            "127.0.0.1:4712",
            elsewhere,
            listeners={4711: saying("model"), 80: saying("other")},
        )
        answers = json.loads(await printed(runtime, spec))
    assert answers == {
        "127.0.0.1:4711": "model heard hello\n",
        "127.0.0.1:80": "other heard hello\n",
        "localhost:4711": "model heard hello\n",
        "127.0.0.1:4712": "ConnectionRefusedError",
        elsewhere: "ConnectionRefusedError",
    }


async def test_nobody_outside_of_the_sandbox_reaches_its_ports() -> None:
    runtime = ProcessRuntime()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    inside = await runtime.start(shell("read line", listeners={port: saying("inside")}))
    other = json.loads(await printed(runtime, asker(f"127.0.0.1:{port}", listeners={4711: saying("another's own")})))
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    await inside.stop()
    assert other == {f"127.0.0.1:{port}": "ConnectionRefusedError"}


async def test_an_end_of_the_program_ends_what_is_being_answered(caplog: pytest.LogCaptureFixture) -> None:
    broken_off = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"a word\n")
        try:
            await asyncio.Event().wait()
        finally:
            broken_off.set()

    runtime = ProcessRuntime()
    spec = RunSpec(
        "asker",
        (PYTHON, "-I", "-c", ASK, "127.0.0.1:4711"),
        mounts=interpreter(),
        listeners={4711: Connections(answer)},
    )
    running = await runtime.start(spec)
    assert b"a word" in await running.stdout.readline()
    await running.wait()
    await asyncio.wait_for(broken_off.wait(), 30)
    assert caplog.records == []


async def test_a_relay_leads_to_one_place_and_carries_both_directions() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    runtime = ProcessRuntime()
    answers = json.loads(
        await printed(runtime, asker("127.0.0.1:4711", f"127.0.0.1:{port}", listeners={4711: relay(host, port)}))
    )
    server.close()
    assert answers == {"127.0.0.1:4711": "HELLO\n", f"127.0.0.1:{port}": "ConnectionRefusedError"}


@pytest.mark.parametrize("port", [0, 65_536, 3128])
async def test_a_port_that_can_not_be_served_is_refused_by_its_number(port: int) -> None:
    runtime = ProcessRuntime()
    with pytest.raises(Invalid, match=f"{port} is no port"):
        await runtime.start(shell("true", listeners={port: saying("nothing")}, egress=("example.com:443",)))
