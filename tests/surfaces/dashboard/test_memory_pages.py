"""The pages of memories over the wire: found, corrected, retracted, and shown as text whatever they say."""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
import pytest

from holdfast.core.clock import parse_moment
from holdfast.features.memory.model import MemoryChange, NewMemory
from holdfast.features.memory.service import MemoryService
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.attacks.markup import PAYLOADS
from tests.support.clock import MovableClock
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


async def test_a_day_shows_an_edited_memory_in_the_words_it_had(
    sqlite_database: SqliteDatabase,
) -> None:
    clock = MovableClock(parse_moment("2026-03-01", "at"))
    async with serving(sqlite_database, clock=clock) as server, await server.browser(server.start.owner_id) as owner:
        memories, workspace = server.services[MemoryService], server.start.workspace_id
        saved = await memories.save(server.owner, workspace, NewMemory("The deploy runs on Fridays at noon."))
        assert saved.memory is not None
        clock.advance(days=5)
        change = MemoryChange(content="The deploy runs on Mondays at nine.")
        await memories.edit(server.owner, workspace, saved.memory.slug, change)
        then = (await owner.get("/w/default/memory?as_of=2026-03-02")).text
        now = (await owner.get("/w/default/memory")).text
        page = (await owner.get(f"/w/default/memory/{saved.memory.slug}")).text
    assert "Fridays at noon" in then and "Mondays at nine" not in then
    assert "Mondays at nine" in now and "Fridays at noon." not in now
    assert "Mondays at nine" in page and "Fridays at noon." in page


async def test_what_was_retracted_is_said_again_and_only_that(server: TestServer, owner: httpx.AsyncClient) -> None:
    slug = await _save(server, "The deploy runs on Fridays at noon.")
    assert (await owner.post(f"/w/default/memory/{slug}/again")).status_code == 409
    await owner.post(f"/w/default/memory/{slug}/retract", data={"note": "A slip."})
    again = await owner.post(f"/w/default/memory/{slug}/again")
    assert again.status_code == 303 and again.headers["location"] != f"/w/default/memory/{slug}"
    assert "Fridays at noon" in (await owner.get("/w/default/memory")).text
    assert "retracted" in (await owner.get(f"/w/default/memory/{slug}")).text


async def test_a_list_is_narrowed_by_what_its_memories_have(server: TestServer, owner: httpx.AsyncClient) -> None:
    memories, workspace = server.services[MemoryService], server.start.workspace_id
    for text, category, tags in (
        ("Ada owns the payments gateway.", "fact", ("people", "pay")),
        ("Answer in short sentences.", "preference", ("style",)),
        ("The ledger closes at midnight.", "fact", ("pay",)),
    ):
        await memories.save(server.owner, workspace, NewMemory(text, category, tags=tags))
    page = (await owner.get("/w/default/memory")).text
    facets = re.findall(r'class="tag" href="[^"]*">\s*(\S+) <span class="count">(\d+)<', page)
    assert facets == [("fact", "2"), ("preference", "1"), ("#pay", "2"), ("#people", "1"), ("#style", "1")]
    narrowed = (await owner.get("/w/default/memory?category=fact&tag=pay")).text
    assert "ledger" in narrowed and "short sentences" not in narrowed and narrowed.count('aria-current="true"') >= 2
    hostile = (await owner.get('/w/default/memory?tag="><script>')).text
    assert '"><script>' not in hostile


async def test_the_import_page_is_for_writing_and_the_archive_is_one_click(owner: httpx.AsyncClient) -> None:
    page = (await owner.get("/w/default/memory/import")).text
    assert "<import-files" in page and "/export" in page


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
