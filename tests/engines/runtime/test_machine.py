"""What a machine must have for the sandbox: found where it is, and refused with the remedy where it is not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.engines.runtime import bwrap
from holdfast.engines.runtime.base import RunSpec, SandboxMissing
from holdfast.engines.runtime.process import ProcessRuntime
from holdfast.engines.runtime.seccomp import UnknownMachine, syscall_filter
from tests.support.sandbox.programs import printed, shell

TRY = """
import asyncio
from holdfast.core.errors import HoldfastError
from holdfast.engines.runtime.process import ProcessRuntime
from tests.support.sandbox.programs import printed, shell

async def main():
    runtime = ProcessRuntime()
    try:
        print(await printed(runtime, shell("id -u; echo confined")))
    except HoldfastError as problem:
        print(problem.code, problem.message)
    await runtime.close()

asyncio.run(main())
"""


ON_UVLOOP = """
import uvloop
from holdfast.engines.mcp_client.stdio import open_stdio
from holdfast.engines.runtime.base import RunLimits
from holdfast.engines.runtime.process import ProcessRuntime
from tests.support.sandbox.programs import hostile, shell

async def main():
    runtime = ProcessRuntime()
    connection = await open_stdio(runtime, hostile("plain", egress=("a.example:443",)))
    print((await connection.call("echo", {"text": "x" * 500_000})).content[0]["text"] == "x" * 500_000)
    await connection.close()
    eater = await runtime.start(shell("x=x; while :; do x=$x$x; done", limits=RunLimits(memory_bytes=64 << 20)))
    print((await eater.wait()).how)
    printer = await runtime.start(shell("yes", limits=RunLimits(output_bytes=1_000)))
    print((await printer.wait()).how)
    sleeper = await runtime.start(shell("yes; sleep 1000"))
    print((await sleeper.stop(0.1)).how)
    await runtime.close()

uvloop.run(main())
"""


def tried(*prefix: str) -> str:
    command = [*prefix, sys.executable, "-c", TRY]
    run = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3], timeout=60)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.slow
async def test_the_bubblewrap_that_comes_with_us_serves_where_the_system_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    found = bwrap.find_bwrap()
    assert found is not None and "site-packages" in str(found)
    runtime = ProcessRuntime()
    assert await printed(runtime, shell("echo confined")) == "confined\n"
    await runtime.close()


async def test_without_bubblewrap_nothing_runs_and_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    runtime = ProcessRuntime()
    with pytest.raises(SandboxMissing, match="apt-get install bubblewrap"):
        await runtime.check()
    with pytest.raises(SandboxMissing):
        await runtime.start(shell("echo never"))
    await runtime.close()


@pytest.mark.slow
def test_the_servers_own_event_loop_runs_programs_as_well() -> None:
    run = subprocess.run(
        [sys.executable, "-c", ON_UVLOOP], capture_output=True, text=True, cwd=Path(__file__).parents[3], timeout=60
    )
    assert run.stdout.split() == ["True", "memory", "output", "stopped"], run.stderr


@pytest.mark.slow
def test_a_machine_without_user_namespaces_refuses_with_the_remedy() -> None:
    _can_unshare()
    without = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"'
    said = tried("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", without, "sh")
    assert said.startswith("sandbox_missing Programs can't be confined on this machine: ") and "sysctl" in said


@pytest.mark.slow
def test_root_of_a_container_with_one_user_is_confined_as_an_ordinary_one() -> None:
    _can_unshare()
    assert tried("unshare", "--user", "--map-root-user").split() == ["1000", "confined"]


def _can_unshare() -> None:
    command = ["unshare", "--user", "--map-root-user", "true"]
    if shutil.which("unshare") is None or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("this machine makes no user namespaces with unshare (util-linux)")


@pytest.mark.slow
async def test_the_check_is_made_once_and_a_sandbox_that_leaks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever takes a part of the sandbox away, the check notices by trying."""
    real = bwrap.arguments
    for taken in ("--seccomp", "--remount-ro"):

        def without(spec: RunSpec, taken: str = taken) -> tuple[list[bwrap.Argument], list[str]]:
            args, sources = real(spec)
            places = [place for place, argument in enumerate(args) if argument == taken]
            return [argument for place, argument in enumerate(args) if not _in(place, places)], sources

        monkeypatch.setattr("holdfast.engines.runtime.process.arguments", without)
        runtime = ProcessRuntime()
        with pytest.raises(SandboxMissing):
            await runtime.start(shell("echo never"))
        await runtime.close()


def _in(place: int, places: list[int]) -> bool:
    return place in places or place - 1 in places


def test_a_processor_without_a_filter_is_named() -> None:
    with pytest.raises(UnknownMachine, match="riscv64"):
        syscall_filter("riscv64")
    for machine in ("x86_64", "aarch64"):
        assert len(syscall_filter(machine)) % 8 == 0 and len(syscall_filter(machine)) // 8 < 4_096


@pytest.mark.slow
async def test_as_root_each_program_has_a_user_of_its_own() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    runtime = ProcessRuntime()
    users = set()
    for _ in range(3):
        running = await runtime.start(shell("echo ready; read line"))
        await running.stdout.readline()
        users |= {os.stat(f"/proc/{pid}").st_uid for pid in os.listdir("/proc") if _is_shell(pid)}
    assert len(users) == 3 and min(users) >= 1_900_000_000
    await runtime.close()


def _is_shell(pid: str) -> bool:
    try:
        return b"echo ready; read line" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
