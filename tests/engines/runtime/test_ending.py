"""How sandboxed programs end: nothing of one is left behind, also when Holdfast is killed without warning."""

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.engines.mcp_client.stdio import open_stdio
from holdfast.engines.runtime.process import ProcessRuntime
from tests.support.sandbox.programs import hostile, shell

pytestmark = pytest.mark.slow


def having(mark: str) -> list[int]:
    """The processes of this machine whose command line has the mark."""
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdecimal() and int(pid) != os.getpid():
            with contextlib.suppress(OSError):
                if mark.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(int(pid))
    return found


def new_mark() -> str:
    """How long the left-behind processes would sleep; nobody else sleeps that long."""
    return f"3600.{random.randrange(10**12):012}"


def wait_until_there(mark: str) -> None:
    """What a program started bears the mark a moment later: three sleep in sessions of their own, and the program."""
    deadline = time.monotonic() + 60
    while len(having(mark)) < 4:
        assert time.monotonic() < deadline, having(mark)
        time.sleep(0.01)


def wait_until_gone(mark: str) -> None:
    deadline = time.monotonic() + 60
    while having(mark):
        assert time.monotonic() < deadline, having(mark)
        time.sleep(0.01)


def started(mark: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.support.sandbox.holder", mark]
    return subprocess.Popen(command, cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True)


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_killing_holdfast_leaves_no_process_also_none_in_a_session_of_its_own() -> None:
    mark = new_mark()
    holder = started(mark)
    assert (line(holder), line(holder)) == ("starting", "ready")
    wait_until_there(mark)
    holder.kill()
    holder.wait()
    wait_until_gone(mark)


def test_killing_holdfast_at_any_moment_of_a_start_leaves_nothing() -> None:
    for attempt in range(25):
        mark = new_mark()
        holder = started(mark)
        assert line(holder) == "starting"
        time.sleep(attempt * 0.006)
        holder.kill()
        holder.wait()
        wait_until_gone(mark)


def test_killing_the_launcher_kills_the_program() -> None:
    mark = new_mark()
    holder = started(mark)
    assert (line(holder), line(holder)) == ("starting", "ready")
    for pid in Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    wait_for = time.monotonic() + 60
    while [pid for pid in having(mark) if pid != holder.pid]:
        assert time.monotonic() < wait_for
        time.sleep(0.01)
    holder.kill()
    holder.wait()


async def test_stopping_returns_when_nothing_is_left() -> None:
    runtime = ProcessRuntime()
    mark = new_mark()
    connection = await open_stdio(runtime, hostile("spawns", mark))
    await connection.call("echo", {"text": "x"})
    wait_until_there(mark)
    await connection.close()
    assert having(mark) == []
    await runtime.close()


async def test_a_program_that_ignores_every_request_to_end_is_ended() -> None:
    runtime = ProcessRuntime()
    running = await runtime.start(shell("trap '' TERM INT HUP; echo ready; while :; do sleep 1000; done"))
    await running.stdout.readline()
    ended = await running.stop(0.2)
    assert (ended.how, ended.said) == ("stopped", "It was stopped.")
    assert await running.wait() == ended and await running.stop() == ended
    await runtime.close()


async def test_a_program_is_asked_first_and_may_tidy_up() -> None:
    runtime = ProcessRuntime()
    running = await runtime.start(shell("trap 'echo tidied; exit 0' TERM; echo ready; while :; do sleep 0.05; done"))
    await running.stdout.readline()
    stopping = asyncio.create_task(running.stop(30))
    assert await running.stdout.readline() == b"tidied\n"
    assert (await stopping).how == "stopped"
    await runtime.close()


async def test_closing_the_runtime_stops_everything() -> None:
    runtime = ProcessRuntime()
    mark = new_mark()
    running = [await runtime.start(shell(f"echo ready; sleep {mark}")) for _ in range(5)]
    for each in running:
        await each.stdout.readline()
    await runtime.close()
    assert having(mark) == []
    assert {(await each.wait()).how for each in running} == {"stopped"}


async def test_giving_up_a_start_leaves_nothing() -> None:
    runtime = ProcessRuntime()
    await runtime.check()
    for pause in range(12):
        mark = new_mark()
        starting = asyncio.create_task(runtime.start(shell(f"sleep {mark}")))
        await asyncio.sleep(pause * 0.004)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await starting).stop(0)
        assert having(mark) == []
    await runtime.close()
