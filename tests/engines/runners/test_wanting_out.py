"""An agent that wants out of a sandbox as a session has it, with everything that it is given there: it gets nothing."""

import asyncio
import json
import os
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.engines.runners.base import RunnerFailed, ToolStarted
from holdfast.engines.runners.builtin import BuiltinRunner
from holdfast.engines.runners.command import CommandRunner
from holdfast.engines.runtime.base import RunLimits
from tests.fakes.llm.model import KEY, calls, model, says
from tests.support.agents.workshop import Workshop, workshop
from tests.support.sandbox.outside import places_outside
from tests.support.sandbox.programs import HERE, PYTHON

pytestmark = [pytest.mark.slow, pytest.mark.contract("XA-11")]

CAPTIVE = HERE.parent / "agents" / "captive.py"
ATTACKS = [
    name
    for file in (HERE / "attacker.py", CAPTIVE)
    for name in re.findall(r"^@(?:attacker\.)?attack\ndef (\w+)", file.read_text(), re.MULTILINE)
]
LIMITS = RunLimits(memory_bytes=1 << 30, processes=64, file_bytes=8 << 20)
MARK = "a-child-that-stays-behind"


def command_lines() -> bytes:
    """Everybody's on this machine."""
    found = b""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            found += Path(f"/proc/{pid}/cmdline").read_bytes() + b"\n"
    return found


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[Workshop]:
    """Another session's place, with files and a socket of its own."""
    async with workshop(tmp_path / "other", "http://127.0.0.1:1/v1", "another's key") as made:
        (made.home / "secret").write_text("another's")
        yield made


async def test_every_attack_from_inside_gets_nothing(tmp_path: Path, other: Workshop) -> None:
    (tmp_path / "outside").mkdir()
    with places_outside(tmp_path / "outside") as places:
        mark = f"{MARK}-{os.getpid()}"
        places |= {
            "others": [str(path) for path in (other.home, other.worktree, other.sockets / "harbour.sock")],
            "host": socket.gethostbyname(socket.gethostname()),
            "processes": LIMITS.processes,
            "file_bytes": LIMITS.file_bytes,
            "shown": {"/home": ["agent"]},
            "mark": mark,
        }
        env = {"PLACES": json.dumps(places)}
        async with workshop(tmp_path / "shop", "http://127.0.0.1:1/v1", "key", env=env) as shop:
            shop.limits = LIMITS
            for file in (HERE / "attacker.py", CAPTIVE):
                (shop.worktree / file.name).write_bytes(file.read_bytes())
            agent = await shop.start(CommandRunner((PYTHON, "-I", "/work/captive.py")), "Get out.")
            assert (await agent.turn()).reason == "done"
            outcomes = {result.call_id: result for result in agent.told.results}
            assert outcomes.keys() == set(ATTACKS) and len(ATTACKS) > 50
            assert {name: result.text for name, result in outcomes.items() if result.ok} == {}
            # Its child lives in a session of its own, and has no parent; it goes with the sandbox all the same.
            await until(lambda: mark.encode() in command_lines())
            await agent.running.stop(0)
            assert mark.encode() not in command_lines()
            # Root gives the worktree to the next process; a link in it must not give away what it leads to.
            key = Path(places["files"][0])
            before = key.stat()
            again = await shop.start(CommandRunner((PYTHON, "-I", "/work/captive.py")), "Once more.")
            await again.running.stop(0)
            assert (key.stat().st_uid, key.stat().st_mode) == (before.st_uid, before.st_mode)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.05)


async def test_hooks_and_settings_of_the_worktree_run_in_the_sandbox_or_not_at_all(tmp_path: Path) -> None:
    mark = tmp_path / "ran-outside"
    script = f"#!/bin/sh\\necho ran >> /work/ran-inside; touch {mark}\\n"
    evil = " && ".join(
        (
            f"printf '{script}' > .git/evil",
            "chmod +x .git/evil",
            "cp .git/evil .git/hooks/pre-commit",
            "git config core.fsmonitor /work/.git/evil",
            "git config core.sshCommand /work/.git/evil",
            "git config core.hooksPath /work/.git/hooks",
            "echo '* filter=evil diff=evil' > .gitattributes",
            "git config filter.evil.clean /work/.git/evil",
            "git config diff.evil.textconv /work/.git/evil",
            "echo x > new",
        )
    )
    async with model() as upstream, workshop(tmp_path / "shop", upstream.url, KEY) as shop:
        upstream.script = [
            calls(("run_command", {"command": evil})),
            calls(("git", {"arguments": ["add", "-A"]}), ("git", {"arguments": ["commit", "-qm", "Evil"]})),
            says("Done."),
            says("Still here."),
        ]
        agent = await shop.start(BuiltinRunner(), "Set a trap.")
        await agent.turn()
        assert "ran" in (shop.worktree / "ran-inside").read_text(), agent.told.results
        # Starting, resuming and stopping touch the worktree from outside, and run nothing that it names.
        await agent.running.stop()
        again = await shop.start(BuiltinRunner(), "Go on.", resume=agent.told.token)
        await again.turn()
        await again.running.stop()
    assert not mark.exists()


@pytest.mark.parametrize(
    ("bomb", "said"),
    [
        ("bytearray(2 << 30)", "memory"),
        ("[bytearray(64 << 20) for _ in range(40)]", "memory"),
        ("[os.fork() for _ in range(40)]", ""),
    ],
)
async def test_a_bomb_ends_itself_and_nothing_else(tmp_path: Path, bomb: str, said: str) -> None:
    async with model() as upstream, workshop(tmp_path, upstream.url, KEY) as shop:
        shop.limits = replace(LIMITS, memory_bytes=256 << 20)
        command = f"{PYTHON} -I -c 'import os; x = {bomb}; input()'"
        upstream.script = [calls(("run_command", {"command": command})), says("It is over.")]
        agent = await shop.start(BuiltinRunner(), "Explode.")
        await agent.until(lambda event: isinstance(event, ToolStarted))
        # Either the kernel refused it and the agent goes on, or the watch stopped the sandbox and says why.
        with suppress(RunnerFailed):
            await agent.turn()
        ending = await agent.running.stop()
        assert ending.how in ("stopped", "memory", "processes"), ending
        if ending.how != "stopped":
            assert said in ending.said
        upstream.script = [says("Yes.")]
        other = await shop.start(BuiltinRunner(), "Still there?")
        assert (await other.turn()).text == "Yes."
