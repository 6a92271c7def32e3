"""Owns the proof that a link ends when it is told to, whatever is under way at that moment."""

import asyncio
from pathlib import Path

import pytest

from holdfast.engines.runtime.kubernetes.inside import sidecar
from holdfast.engines.runtime.kubernetes.inside.link import PodLink, PodStream


async def _accept(channel: PodStream) -> None:
    channel.close()


async def test_a_link_ends_although_something_is_said_at_the_same_moment() -> None:
    there: asyncio.Queue[bytes] = asyncio.Queue()
    back: asyncio.Queue[bytes] = asyncio.Queue()
    one = PodLink(first=True, holder="h", accept=_accept)
    other = PodLink(first=False, holder="h", accept=_accept)
    tasks = [
        asyncio.create_task(one.serve(back.get, there.put)),
        asyncio.create_task(other.serve(there.get, back.put)),
    ]
    channel = one.open({"to": "nothing"})
    assert await channel.read() == b""
    last = one.open({"to": "nothing"})
    # Both within one turn of the loop: the writer is woken and cancelled.
    last.close()
    for task in tasks:
        task.cancel()
    done, pending = await asyncio.wait(tasks, timeout=10)
    assert len(done) == 2 and not pending


async def test_a_container_that_never_answers_says_nothing_in_its_programs_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sidecar, "_BOX_SECONDS", 0.0)
    there: asyncio.Queue[bytes] = asyncio.Queue()
    back: asyncio.Queue[bytes] = asyncio.Queue()
    joins = sidecar.Sidecar({"boxes": {"agent": str(tmp_path / "never.sock")}})
    one = PodLink(first=True, holder="h", accept=_accept)
    other = PodLink(first=False, holder="h", accept=joins._opened)
    tasks = [
        asyncio.create_task(one.serve(back.get, there.put)),
        asyncio.create_task(other.serve(there.get, back.put)),
    ]
    async with asyncio.timeout(10):
        assert await one.open({"to": "box", "box": "agent"}).read_all() == b""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=10)
