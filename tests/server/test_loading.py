"""What is loaded after the start: one after the other, and a failure ends the server with its reason."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from holdfast.core.clock import Clock
from holdfast.core.parts import Build, Parts
from holdfast.core.settings import Settings
from holdfast.features.documents.ingest import Ingestion
from holdfast.registry.entities import Entities
from holdfast.registry.topics import Topics
from holdfast.server import engines
from holdfast.server.background import background
from holdfast.server.features import Features, features
from holdfast.server.lifecycle import COLLECT_AFTER, AnnouncingServer
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from holdfast.surfaces.http.gate import Gate
from holdfast.surfaces.http.protocol.proxies import Proxies
from holdfast.surfaces.http.telemetry.metrics import Metrics
from tests.support.clock import MovableClock
from tests.support.features.audit import NOWHERE


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """Serves nobody."""


def _server(*loads: Callable[[], Awaitable[object]]) -> tuple[AnnouncingServer, list[str]]:
    said: list[str] = []
    gate = Gate(
        _nothing,
        metrics=Metrics(),
        allowed_hosts=[],
        allowed_origins=(),
        request_timeout_seconds=10,
        proxies=Proxies(()),
    )
    gate.on_ready += loads

    async def stopped() -> None:
        said.append("stopped")

    gate.on_stop.append(stopped)
    config = uvicorn.Config(gate, host="127.0.0.1", port=0, lifespan="off", log_config=None)
    return AnnouncingServer(config, lambda: said.append("announced"), gate), said


async def test_a_surface_that_cannot_be_loaded_ends_the_server_with_the_reason() -> None:
    async def broken() -> None:
        raise ImportError("half of it is missing")

    server, said = _server(broken)
    with pytest.raises(ImportError, match="half of it is missing"):
        await asyncio.wait_for(server.serve(), 20)
    assert said == ["announced", "stopped"]


async def test_surfaces_are_loaded_one_after_the_other() -> None:
    running: list[str] = []
    seen: list[list[str]] = []

    def load(name: str) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            running.append(name)
            await asyncio.sleep(0)
            seen.append(list(running))
            running.remove(name)
            if name == "last":
                server.should_exit = True

        return work

    server, _ = _server(load("first"), load("last"))
    await asyncio.wait_for(server.serve(), 20)
    assert seen == [["first"], ["last"]]


async def test_a_server_that_is_told_to_end_does_not_wait_for_what_it_still_loads() -> None:
    async def endless() -> None:
        said.append("loading")
        server.should_exit = True
        await asyncio.Event().wait()

    async def more() -> None:
        said.append("loading more")

    server, said = _server(endless, more)
    await asyncio.wait_for(server.serve(), 20)
    assert said == ["announced", "loading", "stopped"]


async def test_a_job_handler_that_cannot_be_built_ends_the_start(
    sqlite_database: SqliteDatabase, clock: MovableClock
) -> None:
    class Broken(Parts):
        def __getitem__(self, kind: type[Any]) -> Any:
            if kind is Ingestion:
                raise LookupError("nobody reads documents")
            return super().__getitem__(kind)

    def build(kind: type[Any]) -> Build | None:
        return features().builder(kind) or engines.builder(kind)

    entities, topics = Entities(lambda: (), lambda: (), lambda: ()), Topics({})
    given = {Features: features(), Settings: Settings(data_dir=NOWHERE), Database: sqlite_database, Clock: clock}
    parts = Broken(build, {**given, Entities: entities, Topics: topics})
    with pytest.raises(LookupError, match="nobody reads documents"):
        async with background(parts):
            raise AssertionError("it started")


_COLLECTOR = """
import asyncio, gc, os, signal, sys, threading, time
from pathlib import Path
from holdfast.core.settings import Settings
from holdfast.server.lifecycle import serve

def watch(ready):
    def look():
        while not gc.get_freeze_count():
            time.sleep(0.05)
        print(gc.get_freeze_count(), *gc.get_threshold())
        os.kill(os.getpid(), signal.SIGTERM)
    threading.Thread(target=look, daemon=True).start()

asyncio.run(serve(Settings(data_dir=Path(sys.argv[1]), port=0), watch))
"""


@pytest.mark.slow  # It loads a whole server in a process of its own.
def test_the_collector_does_not_look_through_what_was_loaded(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COLLECTOR, str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    frozen, threshold, *_ = map(int, done.stdout.split())
    # Modules, classes and functions of everything that is served, 150,000 objects and more.
    assert frozen > 100_000
    assert threshold == COLLECT_AFTER
