"""Surfaces that load late: asked for at the same time, they all load."""

import asyncio
import sys
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send

from holdfast.surfaces.http.deferred import Deferred

MEETING = """
import threading

barrier = threading.Barrier(2)
met = []

def meet():
    try:
        barrier.wait(0.3)
        met.append(True)
    except threading.BrokenBarrierError:
        pass
"""


class Empty:
    """A surface without anything in it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("nobody calls it")

    async def stop(self) -> None:
        return None


async def test_two_surfaces_never_import_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python answers two threads in a circle of imports with a deadlock error: the first request to /v1/mcp got 500.
    (tmp_path / "late_meeting.py").write_text(MEETING)
    for name in ("late_left", "late_right"):
        (tmp_path / f"{name}.py").write_text("import late_meeting\nlate_meeting.meet()")
    monkeypatch.syspath_prepend(str(tmp_path))
    surfaces = [Deferred(name, Empty) for name in ("late_left", "late_right")]
    try:
        loaded = await asyncio.gather(*(surface.load() for surface in surfaces))
        met = sys.modules["late_meeting"].met
    finally:
        for name in ("late_meeting", "late_left", "late_right"):
            sys.modules.pop(name, None)
    assert [type(surface) for surface in loaded] == [Empty, Empty]
    assert met == []
