"""Answers that take a while: on a stream where the client takes one, else in one piece; given up by hanging up."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from holdfast.core.access import RUN
from holdfast.core.tools.gateway import Catalog, Gateway
from holdfast.core.tools.tool import Annotations, Tool
from holdfast.features.identity.model import NewKey
from holdfast.storage.sqlite import SqliteDatabase
from holdfast.surfaces.http.admission import LimitedCallers
from holdfast.surfaces.http.authentication import Authenticator
from holdfast.surfaces.http.gate import Gate
from holdfast.surfaces.http.protocol.proxies import Proxies
from holdfast.surfaces.http.telemetry.metrics import Metrics
from holdfast.surfaces.mcp.keystone import KeystoneSettings, KeystoneSurface
from tests.support.clock import MovableClock
from tests.support.world import new_world
from tests.surfaces.mcp.harness import AddInput, AddOutput, Slow, serve_asgi

BOTH = "application/json, text/event-stream"
REQUEST_SECONDS = 0.2


@asynccontextmanager
async def waiting(database: SqliteDatabase) -> AsyncIterator[tuple[Slow, httpx2.AsyncClient]]:
    """A mount whose one tool takes as long as the test likes, behind a gate that is soon impatient."""
    world = await new_world(database, MovableClock())
    services, slow = world.services, Slow()
    notes = Annotations(read_only=True)
    tool = Tool("slow", "Slow", "Takes its time", AddInput, AddOutput, slow.handler, notes, RUN, consumer="keystone")
    authenticator = Authenticator(
        services.keys, services.sign_in, services.tokens, services.limiter, services.audit, 6000
    )
    gate = LimitedCallers(authenticator, services.limiter, 6000, "mcp")
    surface = KeystoneSurface(gate, Gateway(lambda: Catalog([tool])), services.clients, KeystoneSettings())
    impatient = Gate(
        surface,
        metrics=Metrics(),
        allowed_hosts=(),
        allowed_origins=(),
        request_timeout_seconds=REQUEST_SECONDS,
        proxies=Proxies(()),
    )
    minted = await services.keys.create(world.owner, NewKey(name="agent", kind="organization"))
    headers = {"Authorization": f"Bearer {minted.secret}"}
    async with (
        serve_asgi(impatient) as root,
        httpx2.AsyncClient(base_url=root, headers=headers, timeout=30, trust_env=False) as http,
    ):
        yield slow, http


def call(**meta: Any) -> dict[str, Any]:
    params = {"name": "slow", "arguments": {"left": 2}, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


async def test_a_program_that_takes_only_json_waits_for_the_whole_answer(sqlite_database: SqliteDatabase) -> None:
    async with waiting(sqlite_database) as (slow, http):
        asked = asyncio.create_task(http.post("/api/mcp", json=call(progressToken="p")))
        await slow.begun.wait()
        await asyncio.sleep(REQUEST_SECONDS * 2)
        slow.go_on.set()
        answer = await asked
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        assert answer.json()["result"]["content"][0]["text"] == '{"total":2}'


async def test_a_client_that_takes_events_hears_how_far_it_is(sqlite_database: SqliteDatabase) -> None:
    async with waiting(sqlite_database) as (slow, http):
        slow.go_on.set()
        answer = await http.post("/api/mcp", json=call(progressToken="p"), headers={"Accept": BOTH})
        assert answer.headers["content-type"] == "text/event-stream"
        heard = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
        assert [each["params"]["progress"] for each in heard[:-1]] == [1, 2]
        assert heard[-1]["id"] == 7 and heard[-1]["result"]["content"][0]["text"] == '{"total":2}'
        plain = await http.post("/api/mcp", json=call(), headers={"Accept": BOTH})
        assert plain.headers["content-type"] == "application/json"


async def test_hanging_up_gives_the_call_up(sqlite_database: SqliteDatabase) -> None:
    async with waiting(sqlite_database) as (slow, http):
        asked = asyncio.create_task(http.post("/api/mcp", json=call()))
        await slow.begun.wait()
        asked.cancel()
        async with asyncio.timeout(20):
            await slow.cancelled.wait()
