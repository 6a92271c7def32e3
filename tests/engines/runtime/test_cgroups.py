"""Control groups: a hard cap beside the watch, where the machine lets us make them; nothing of them is left behind."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.engines.runtime import cgroups
from holdfast.engines.runtime.base import RunEnding, RunLimits, RunSpec
from holdfast.engines.runtime.cgroups import ControlGroups
from holdfast.engines.runtime.process import ProcessRuntime
from tests.support.sandbox.programs import PYTHON, interpreter, printed, shell

MEGABYTE = 1 << 20
ROOT = Path(__file__).parents[3]


def usable() -> bool:
    groups = cgroups.found()
    if groups is None or not groups.open():
        return False
    groups.close()
    return True


needs_groups = pytest.mark.skipif(not usable(), reason="this machine lets nobody here make control groups")


def bases() -> list[Path]:
    groups = cgroups.found()
    assert groups is not None
    return list(groups._bases)


def of_this_machine() -> set[str]:
    """The groups that any Holdfast has here."""
    return {str(each) for base in bases() for each in base.glob("holdfast-*")}


@pytest.fixture
async def runtime() -> AsyncIterator[ProcessRuntime]:
    runtime = ProcessRuntime()
    yield runtime
    await runtime.close()


async def ending(runtime: ProcessRuntime, spec: RunSpec) -> RunEnding:
    running = await runtime.start(spec)
    running.stdin.close()
    return await running.wait()


@needs_groups
@pytest.mark.slow
async def test_a_program_and_all_that_it_starts_are_in_a_group_with_its_limits(runtime: ProcessRuntime) -> None:
    running = await runtime.start(shell("setsid sleep 600 & echo ready; wait", limits=RunLimits(processes=40)))
    assert await running.stdout.readline() == b"ready\n"
    (pids,) = [
        made
        for base in bases()
        for made in base.glob("holdfast-*/*/pids.max")
        if made.read_text().strip() == str(40 + 8)
    ][:1]
    async with asyncio.timeout(30):
        while not {b"bwrap", b"/bin/sh", b"sleep"} <= commands(pids.parent):
            await asyncio.sleep(0.02)
    await running.stop(0)
    assert not pids.parent.exists()


@needs_groups
@pytest.mark.slow
async def test_who_outruns_the_watch_is_stopped_by_the_kernel(
    runtime: ProcessRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many at once can take more between two looks than any look allows: here the watch never looks at all."""
    code = (
        "import os, time\n"
        "for _ in range(12):\n"
        "    if os.fork() == 0:\n        held = os.urandom(60 << 20)\n        time.sleep(600)\n"
        "time.sleep(600)"
    )
    await runtime.check()
    groups = runtime._groups
    assert groups is not None
    made = groups.make

    def tight(limits: RunLimits) -> cgroups.ControlGroup:
        return made(RunLimits(memory_bytes=100 * MEGABYTE, processes=limits.processes))

    monkeypatch.setattr(groups, "make", tight)
    # To the watch it may have a gigabyte; its group has 100 MiB and what its private directories may hold.
    limits = RunLimits(memory_bytes=1024 * MEGABYTE)
    ended = await ending(runtime, RunSpec("eater", (PYTHON, "-I", "-c", code), mounts=interpreter(), limits=limits))
    assert ended.how == "memory"


@needs_groups
@pytest.mark.slow
async def test_a_fork_bomb_meets_the_groups_number_of_processes(runtime: ProcessRuntime) -> None:
    code = (
        "import os, resource, time\ncount = 0\n"
        "try:\n    while True:\n        if os.fork() == 0: time.sleep(600)\n        count += 1\n"
        "except BlockingIOError:\n    print(count, flush=True)\ntime.sleep(600)"
    )
    limits = RunLimits(processes=32)
    running = await runtime.start(RunSpec("bomb", (PYTHON, "-I", "-c", code), mounts=interpreter(), limits=limits))
    assert 10 < int(await running.stdout.readline()) <= 40
    await running.stop(0)
    assert await printed(runtime, shell("echo unharmed")) == "unharmed\n"


@needs_groups
@pytest.mark.slow
async def test_what_a_killed_holdfast_left_is_removed_by_the_next_and_a_living_ones_is_not(
    runtime: ProcessRuntime,
) -> None:
    before = of_this_machine()
    holder = subprocess.Popen(
        [sys.executable, "-m", "tests.support.sandbox.holder", "3600.5"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    try:
        assert [holder.stdout.readline().strip() for _ in range(2)] == ["starting", "ready"]
        living = of_this_machine() - before
        assert living
        await runtime.check()
        assert runtime._groups is not None and living <= of_this_machine()
        own = {str(each) for each in runtime._groups._parents}
        assert own <= of_this_machine()
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    other = ProcessRuntime()
    async with asyncio.timeout(60):
        while living & of_this_machine():
            await other.check()
            await other.close()
    await runtime.close()
    assert not own & of_this_machine()


def test_a_machine_with_groups_of_the_older_kind_is_understood(tmp_path: Path) -> None:
    for name in ("memory", "pids"):
        (tmp_path / "sys" / name / "own").mkdir(parents=True)
    (tmp_path / "sys/memory/own/memory.use_hierarchy").write_text("1\n")
    proc = written(
        tmp_path,
        "8:pids:/\n4:memory:/own\n0::/\n",
        "1 2 0:3 / /sys/memory rw - cgroup cgroup rw,memory\n1 2 0:4 / /sys/pids rw - cgroup cgroup rw,pids\n",
    )
    groups = cgroups.found(proc, tmp_path)
    assert groups is not None
    assert groups._bases == (tmp_path / "sys/memory/own", tmp_path / "sys/pids")
    (tmp_path / "sys/memory/own/memory.use_hierarchy").write_text("0\n")
    assert cgroups.found(proc, tmp_path) is None


def test_a_machine_with_groups_of_the_newer_kind_is_understood(tmp_path: Path) -> None:
    own = tmp_path / "sys/system.slice/holdfast.service"
    own.mkdir(parents=True)
    (own / "cgroup.controllers").write_text("memory pids")
    (own.parent / "cgroup.controllers").write_text("cpu memory pids")
    (own.parent / "cgroup.subtree_control").write_text("cpu memory pids")
    mounts = "1 2 0:3 / /sys rw - cgroup2 cgroup2 rw,nsdelegate\n"
    proc = written(tmp_path, "0::/system.slice/holdfast.service\n", mounts)
    groups = cgroups.found(proc, tmp_path)
    # Our own group holds processes and hands nothing down; the one above does already.
    assert groups is not None and groups._bases == (own.parent,)
    (own.parent / "cgroup.subtree_control").unlink()
    assert cgroups.found(proc, tmp_path) is None


def test_where_no_groups_can_be_made_programs_go_without(tmp_path: Path) -> None:
    assert cgroups.found(written(tmp_path, "0::/\n", "1 2 0:3 / /sys rw - tmpfs tmpfs rw\n"), tmp_path) is None
    # Nothing below takes a limit here: these are plain directories that nobody can make.
    nowhere = ControlGroups(dict.fromkeys(("memory", "pids"), tmp_path / "missing"))
    assert nowhere.open() is False


@pytest.mark.slow
async def test_a_runtime_without_groups_confines_and_watches_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "found", lambda: None)
    runtime = ProcessRuntime()
    code = "import os\nheld = []\nwhile True: held.append(os.urandom(1 << 20))"
    limits = RunLimits(memory_bytes=128 * MEGABYTE)
    ended = await ending(runtime, RunSpec("eater", (PYTHON, "-I", "-c", code), mounts=interpreter(), limits=limits))
    assert ended.how == "memory"
    await runtime.close()


def commands(group: Path) -> set[bytes]:
    """What runs in a group, by name."""
    found: set[bytes] = set()
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):
            found.add(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0])
    return found


def written(tmp_path: Path, groups: str, mounts: str) -> Path:
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text(groups)
    (proc / "mountinfo").write_text(mounts)
    return proc
