"""The pages of memories over the wire: found, corrected, retracted, and shown as text whatever they say."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest

from holdfast.features.memory.model import NewMemory
from holdfast.features.memory.service import MemoryService
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.attacks.markup import PAYLOADS
from tests.support.server import TestServer, serving


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database, requests_per_minute=100_000) as running:
        yield running


@pytest.fixture
async def owner(server: TestServer) -> AsyncIterator[httpx.AsyncClient]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(await server.browser(server.start.owner_id))


async def _save(server: TestServer, content: str) -> str:
    saved = await server.services[MemoryService].save(
        server.owner, server.start.workspace_id, NewMemory(content=content)
    )
    assert saved.memory is not None
    return saved.memory.slug


async def test_a_memory_is_corrected_and_its_former_words_are_kept(
    server: TestServer, owner: httpx.AsyncClient
) -> None:
    slug = await _save(server, "The deploy runs on Fridays at noon.")
    answer = await owner.post(
        f"/w/default/memory/{slug}/correct", data={"content": "The deploy runs on Mondays at nine."}
    )
    assert answer.status_code == 303
    page = await owner.get(answer.headers["location"])
    assert "Mondays at nine" in page.text and "Corrected" in page.text
    old = await owner.get(f"/w/default/memory/{slug}")
    assert "superseded" in old.text and "Fridays at noon" in old.text
    listed = (await owner.get("/w/default/memory")).text
    assert "Mondays at nine" in listed and "Fridays at noon" not in listed


async def test_what_is_refused_keeps_what_was_written_and_says_why(
    server: TestServer, owner: httpx.AsyncClient
) -> None:
    slug = await _save(server, "The deploy runs on Fridays at noon.")
    answer = await owner.post(f"/w/default/memory/{slug}/correct", data={"content": "lol"})
    assert answer.status_code == 422 and 'role="alert"' in answer.text and ">lol</textarea>" in answer.text


async def test_a_memory_that_no_longer_holds_leaves_the_list(server: TestServer, owner: httpx.AsyncClient) -> None:
    slug = await _save(server, "The deploy runs on Fridays at noon.")
    answer = await owner.post(f"/w/default/memory/{slug}/retract", data={"note": "We stopped."})
    page = await owner.get(answer.headers["location"])
    assert "retracted" in page.text and "We stopped." in page.text
    assert "Fridays" not in (await owner.get("/w/default/memory")).text


async def test_words_find_and_a_day_shows_what_was_known_then(server: TestServer, owner: httpx.AsyncClient) -> None:
    await _save(server, "The deploy runs on Fridays at noon.")
    await _save(server, "Ada owns the payments gateway.")
    part = await owner.get("/w/default/memory?q=deploy+fridays", headers={"HX-Request": "true"})
    assert "Fridays" in part.text and "<html" not in part.text
    before = await owner.get("/w/default/memory?as_of=2001-01-01")
    assert "Fridays" not in before.text and "No memory fits" in before.text
    assert (await owner.get("/w/default/memory?as_of=yesterday")).status_code == 422


async def test_a_long_list_goes_on_page_by_page(server: TestServer, owner: httpx.AsyncClient) -> None:
    for at in range(110):
        await _save(server, f"Service number {at} belongs to team {at}.")
    first = (await owner.get("/w/default/memory")).text
    assert first.count('class="title"') == 100
    more = first.split('hx-get="/w/default/memory?cursor=')[1].split('"')[0]
    second = await owner.get(f"/w/default/memory?cursor={more}", headers={"HX-Request": "true"})
    assert second.text.count('class="title"') == 10


async def test_nothing_that_a_memory_says_becomes_markup(server: TestServer, owner: httpx.AsyncClient) -> None:
    for at, payload in enumerate(PAYLOADS):
        await server.services[MemoryService].save(
            server.owner,
            server.start.workspace_id,
            NewMemory(content=f"Payload {at} says {payload}", title=payload[:200]),
        )
    for path in ("/w/default/memory", "/", "/find?q=payload", "/w/default/memory?q=payload"):
        page = (await owner.get(path)).text
        for sign in (
            "<script>",
            "<img",
            "<svg onload",
            "<iframe",
            "onerror=window.__owned=1>",
            "<base",
            "<form><button",
        ):
            assert sign not in page, (path, sign)


async def test_a_contributor_of_another_organization_finds_nothing(
    server: TestServer, owner: httpx.AsyncClient
) -> None:
    other = await server.another_tenant()
    assert (await owner.get(f"/w/{other.workspace_id}/memory")).status_code == 404
    refused = await owner.post(f"/w/{other.workspace_id}/memory/new", data={"content": "Planted by somebody else."})
    assert refused.status_code == 404
