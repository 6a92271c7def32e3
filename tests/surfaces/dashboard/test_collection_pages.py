"""The pages of collections: what agents keep is listed, found by its words, and shown as text whatever it says."""

from collections.abc import AsyncIterator

import httpx
import pytest

from holdfast.features.collections.model import NewRecord
from holdfast.features.collections.service import GraphRecords
from holdfast.features.collections.vectors import VectorCollections
from holdfast.storage.database import Database
from tests.support.server import TestServer, serving


@pytest.fixture
async def server(database: Database) -> AsyncIterator[TestServer]:
    async with serving(database, requests_per_minute=100_000) as running:
        yield running


@pytest.fixture
async def owner(server: TestServer) -> AsyncIterator[httpx.AsyncClient]:
    async with await server.browser(server.start.owner_id) as client:
        yield client


async def _keep(server: TestServer, name: str, collection: str = "people", **said: object) -> str:
    new = NewRecord(type="person", data={"name": name, **said}, collection=collection)
    made, _ = await server.services[GraphRecords].write(server.owner, server.start.workspace_id, new)
    return made.id


async def test_a_workspace_without_collections_says_where_they_come_from(owner: httpx.AsyncClient) -> None:
    page = (await owner.get("/w/default/collections")).text
    assert "Nothing is kept here yet" in page and 'href="/w/default/collections"' in page
    assert (await owner.get("/w/default/collections/people")).status_code == 404


async def test_collections_are_listed_with_what_they_hold(server: TestServer, owner: httpx.AsyncClient) -> None:
    await _keep(server, "Ada")
    vectors, workspace = server.services[VectorCollections], server.start.workspace_id
    await vectors.upsert(server.owner, workspace, "a", text="The gate sticks.", collection="notes")
    await vectors.upsert(server.owner, workspace, "b", vector=[1, 0, 0], collection="given")
    page = " ".join((await owner.get("/w/default/collections")).text.split())
    for said in ("/w/default/collections/people", "1 record<", "1 text<", "1 vector of 3 numbers<"):
        assert said in page, said


async def test_records_are_found_in_their_collection_and_in_all_of_them(
    server: TestServer, owner: httpx.AsyncClient
) -> None:
    await _keep(server, "Ada", trade="giraffe keeper")
    await _keep(server, "Bob", "others", trade="giraffe painter")
    both = (await owner.get("/w/default/collections?q=giraffe")).text
    assert "person Ada" in both and "person Bob" in both
    one = (await owner.get("/w/default/collections/people?q=giraffe")).text
    assert "person Ada" in one and "person Bob" not in one
    part = await owner.get("/w/default/collections/people?q=giraffe", headers={"HX-Request": "true"})
    assert "person Ada" in part.text and "<html" not in part.text
    none = (await owner.get("/w/default/collections/people?q=zeppelin")).text
    assert "person Bob" not in none


async def test_texts_of_a_collection_are_found_by_their_words(server: TestServer, owner: httpx.AsyncClient) -> None:
    vectors, workspace = server.services[VectorCollections], server.start.workspace_id
    await vectors.upsert(
        server.owner, workspace, "gate", text="The <b>gate</b> sticks.", metadata={"by": "Ada"}, collection="notes"
    )
    page = (await owner.get("/w/default/collections/notes?q=gate")).text
    assert "The &lt;b&gt;gate&lt;/b&gt; sticks." in page and "&#34;by&#34;: &#34;Ada&#34;" in page
    assert "search its texts by their words" in (await owner.get("/w/default/collections/notes")).text


async def test_a_record_shows_what_it_says_and_nothing_of_it_is_markup(
    server: TestServer, owner: httpx.AsyncClient
) -> None:
    id = await _keep(server, "<script>alert(1)</script>", pets=["cat"])
    page = (await owner.get(f"/w/default/collections/people/{id}")).text
    assert "&lt;script&gt;alert(1)" in page and "<script>alert" not in page
    assert "[&#34;cat&#34;]" in page and f"/graph?centre={id}" in page
    assert (await owner.get(f"/w/default/graph?centre={id}")).status_code == 200
    assert (await owner.get(f"/w/default/collections/others/{id}")).status_code == 404
    found = (await owner.get("/find?q=alert")).text
    assert f"/w/default/collections/people/{id}" in found


async def test_the_records_of_a_collection_go_on_page_by_page(server: TestServer, owner: httpx.AsyncClient) -> None:
    for at in range(53):
        await _keep(server, f"row {at:02}")
    first = await owner.get("/w/default/collections/people")
    assert first.text.count('class="title"') == 50
    more = first.text.partition('class="more"')[2].partition('href="')[2].partition('"')[0].replace("&amp;", "&")
    rest = await owner.get(more, headers={"HX-Request": "true"})
    assert rest.text.count('class="title"') == 3 and "row 52" in rest.text and 'class="more"' not in rest.text


async def test_collections_of_another_organization_are_not_there(server: TestServer, owner: httpx.AsyncClient) -> None:
    id = await _keep(server, "Ada")
    other = await server.another_tenant()
    stranger = await server.services.identity.create_user(other.owner, email="s@example.com", name="S", role="owner")
    async with await server.browser(stranger.id, other.owner) as client:
        for path in ("", "?q=Ada", "/people", f"/people/{id}"):
            assert (await client.get(f"/w/{server.start.workspace_id}/collections{path}")).status_code == 404
            assert "person Ada" not in (await client.get(f"/w/default/collections{path}")).text
    assert (await owner.get(f"/w/{other.workspace_id}/collections")).status_code == 404
