"""The pages of what is known: memories are found, corrected and settled, versions compared, decisions tracked."""

import re
from collections.abc import AsyncIterator

import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.support.pages.dashboard import addresses, seed
from tests.support.server import TestServer, serving

HOSTILE = "100 %(x) </title><script>alert(1)</script> <img src=x onerror=alert(1)>"


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database) as running:
        await seed(running)
        yield running


async def test_a_memory_is_found_and_corrected(server: TestServer) -> None:
    base = (await addresses(server))["/w/{ws}/memory"]
    async with await server.browser(server.start.owner_id) as owner:
        part = await owner.get(f"{base}?q=when+is+the+deploy", headers={"HX-Request": "true"})
        assert "<html" not in part.text and "The deploy runs on Fridays" in part.text
        found = re.search(rf'href="({re.escape(base)}/[^"]*deploy[^"]*)"', part.text)
        assert found is not None
        done = await owner.post(f"{found[1]}/correct", data={"content": "The deploy runs on Mondays at noon."})
        assert done.status_code == 303
        assert "Mondays" in (await owner.get(done.headers["location"])).text
        assert "superseded" in (await owner.get(found[1])).text
        assert "Fridays" not in (await owner.get(base)).text
        gone = await owner.post(f"{done.headers['location']}/retract", data={"note": "We deploy all day."})
        assert "We deploy all day." in (await owner.get(gone.headers["location"])).text


async def test_a_contradiction_is_shown_side_by_side_and_settled(server: TestServer) -> None:
    inbox = (await addresses(server))["/w/{ws}/memory/contradictions"]
    async with await server.browser(server.start.owner_id) as owner:
        page = (await owner.get(inbox)).text
        assert "45 calls" in page and "60 calls" in page
        action, keep = re.search(r'action="([^"]*contradictions/[^"]+)"', page), re.search(r'value="(mem_[^"]+)"', page)
        assert action is not None and keep is not None
        assert (await owner.post(action[1], data={"keep": keep[1]})).headers["location"] == inbox
        assert "Nothing contradicts" in (await owner.get(inbox)).text


async def test_a_new_memory_is_shown_as_text_and_a_refused_one_says_why(server: TestServer) -> None:
    base = (await addresses(server))["/w/{ws}/memory"]
    async with await server.browser(server.start.owner_id) as owner:
        made = await owner.post(
            f"{base}/new", data={"content": f"The banner of the shop says {HOSTILE}", "tags": "a, b"}
        )
        page = (await owner.get(made.headers["location"])).text
        assert "<script>alert" not in page and "<img" not in page and "alert(1)" in page
        refused = await owner.post(f"{base}/new", data={"content": ""})
        assert refused.status_code == 422 and 'role="alert"' in refused.text


async def test_a_list_is_as_of_a_day_and_refuses_what_is_no_day(server: TestServer) -> None:
    base = (await addresses(server))["/w/{ws}/memory"]
    async with await server.browser(server.start.owner_id) as owner:
        assert "Fridays" not in (await owner.get(f"{base}?as_of=2001-01-01")).text
        assert (await owner.get(f"{base}?as_of=never")).status_code == 422
