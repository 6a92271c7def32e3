"""Many of everything: 200 people who follow a workspace, and lists of 10,000 rows that go on page by page."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest

from holdfast.features.interchange.model import SourceFile
from holdfast.features.interchange.service import InterchangeService
from holdfast.features.memory.model import NewMemory
from holdfast.features.memory.service import MemoryService
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.server import TestServer, serving

pytestmark = pytest.mark.slow
_FOLLOWERS = 200
_ROWS = 10_000


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database, requests_per_minute=100_000) as running:
        yield running


async def _heard(client: httpx.AsyncClient, path: str, listening: asyncio.Semaphore) -> str:
    """The first event about a memory that a follower gets; says once that it listens."""
    async with client.stream("GET", path) as answer:
        assert answer.status_code == 200
        listening.release()
        async for line in answer.aiter_lines():
            if line.startswith("event: memory."):
                return line.removeprefix("event: ")
    raise AssertionError("the stream ended before anything happened")


async def test_200_people_who_follow_a_workspace_all_hear_and_pages_still_open(server: TestServer) -> None:
    identity, workspace = server.services.identity, server.start.workspace_id
    path = f"/api/workspaces/{workspace}/events"
    listening = asyncio.Semaphore(0)
    async with AsyncExitStack() as stack, asyncio.timeout(120):
        followers = []
        for at in range(_FOLLOWERS):
            person = await identity.create_user(server.owner, email=f"follower-{at}@example.com", name=f"Follower {at}")
            client = await stack.enter_async_context(await server.browser(person.id))
            followers.append(asyncio.create_task(_heard(client, path, listening)))
        for _ in range(_FOLLOWERS):
            await listening.acquire()
        owner = await stack.enter_async_context(await server.browser(server.start.owner_id))
        assert (await owner.get("/w/default/memory")).status_code == 200
        await server.services[MemoryService].save(
            server.owner, workspace, NewMemory("The deploy runs on Fridays at noon.")
        )
        assert set(await asyncio.gather(*followers)) == {"memory.changed"}


async def test_a_list_of_10000_goes_on_to_its_end_and_is_narrowed(server: TestServer) -> None:
    lines = [
        json.dumps(
            {"content": f"Service {at} listens on port {at + 1} for team {at % 17}.", "tags": [f"team-{at % 17}"]}
        )
        for at in range(_ROWS)
    ]
    source = SourceFile("many.jsonl", "\n".join(lines).encode())
    report = await server.services[InterchangeService].import_files(server.owner, server.start.workspace_id, [source])
    assert sum(report.created.values()) == _ROWS, report
    async with await server.browser(server.start.owner_id) as owner:
        page, seen, turns = (await owner.get("/w/default/memory")).text, set[str](), 0
        assert f'<span class="count">{_ROWS:,}</span>' in page
        while True:
            rows = re.findall(r'class="title" href="([^"]+)"', page)
            assert len(rows) == 100 and not seen.intersection(rows)
            seen.update(rows)
            more = re.search(r'hx-get="(/w/default/memory\?cursor=[^"]+)"', page)
            turns += 1
            if more is None:
                break
            page = (await owner.get(more[1].replace("&amp;", "&"), headers={"HX-Request": "true"})).text
        narrowed = (await owner.get("/w/default/memory?tag=team-3")).text
    assert (len(seen), turns) == (_ROWS, 100)
    assert narrowed.count('class="title"') == 100 and "#team-4" not in narrowed.partition('id="memories"')[2]
