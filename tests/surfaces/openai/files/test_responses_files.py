"""Proves `/files`, `/vector_stores` and file search in responses with the official client."""

from typing import Any

import openai
import pytest
from openai.types.responses import ResponseFileSearchToolCall

from tests.fakes.llm.model import FakeModel, calls, says
from tests.support.server import TestServer
from tests.surfaces.openai.test_responses import client_of, until_async

TEXT = b"# Harbour\n\nThe lighthouse keeper is called Marit. She polishes the lamp every Tuesday.\n"


@pytest.mark.contract("XS-T9")
async def test_an_uploaded_file_is_found_by_a_response(
    sqlite_server: TestServer, sqlite_chat: str, upstream: FakeModel
) -> None:
    async with client_of(sqlite_server, sqlite_chat) as client:
        file = await client.files.create(file=("harbour.md", TEXT), purpose="assistants")

        async def processed() -> bool:
            return (await client.files.retrieve(file.id)).status == "processed"

        await until_async(processed)
        store = await client.vector_stores.create(name="Harbour", file_ids=[file.id])
        found = await client.vector_stores.search(store.id, query="Who keeps the lighthouse?")
        upstream.script = [calls(("file_search", {"query": "lighthouse keeper"})), says("It is Marit.")]
        tool: Any = {"type": "file_search", "vector_store_ids": [store.id]}
        stream = await client.responses.create(model="any", input="Who?", tools=[tool], stream=True)
        events: list[Any] = [event async for event in stream]

    assert found.data[0].file_id == file.id
    search, message = events[-1].response.output
    assert isinstance(search, ResponseFileSearchToolCall) and search.results is not None
    assert (search.results[0].file_id, search.status) == (file.id, "completed")
    assert "Marit" in (search.results[0].text or "")
    assert message.content[0].text == "It is Marit."
    kinds = [event.type for event in events if event.type.startswith("response.file_search_call")]
    assert [kind.rsplit(".")[-1] for kind in kinds] == ["in_progress", "searching", "completed"]
    assert "Marit" in str(upstream.requests[1]["messages"])
    assert upstream.refused == []


async def test_files_and_stores_are_listed_read_and_deleted(server: TestServer) -> None:
    url = f"{server.url}/{server.start.project_id}/default/v1"
    async with client_of(server, url) as client:
        one = await client.files.create(file=("one.txt", b"The first text."), purpose="user_data")
        two = await client.files.create(file=("two.txt", b"The second text."), purpose="assistants")
        listed = [each.id async for each in client.files.list(limit=1)]
        content = await client.files.content(one.id)
        store = await client.vector_stores.create(name="Both")
        await client.vector_stores.files.create(store.id, file_id=two.id)
        inside = [each.id async for each in client.vector_stores.files.list(store.id)]
        await client.vector_stores.update(store.id, name="Renamed")
        named = (await client.vector_stores.retrieve(store.id)).name
        assert (await client.vector_stores.delete(store.id)).deleted
        assert (await client.files.delete(one.id)).deleted
        with pytest.raises(openai.NotFoundError):
            await client.files.retrieve(one.id)
        with pytest.raises(openai.NotFoundError):
            await client.vector_stores.retrieve(store.id)
        with pytest.raises(openai.BadRequestError):
            await client.files.create(file=("none.txt", b""), purpose="assistants")

    assert (one.purpose, one.bytes, one.filename) == ("user_data", 15, "one.txt")
    assert listed == [two.id, one.id]
    assert content.read() == b"The first text."
    assert (inside, named) == ([two.id], "Renamed")


async def test_a_named_workspace_keeps_its_files_to_itself(sqlite_server: TestServer) -> None:
    url = f"{sqlite_server.url}/{sqlite_server.start.project_id}/default/v1"
    owner, start = sqlite_server.owner, sqlite_server.start
    other = await sqlite_server.services.workspaces.create(owner, start.project_id, "Other")
    async with client_of(sqlite_server, url) as client:
        elsewhere = client.with_options(default_headers={"X-Xerotier-Workspace": other.id})
        file = await elsewhere.files.create(file=("a.txt", b"Some text."), purpose="assistants")
        assert [each.id async for each in elsewhere.files.list()] == [file.id]
        assert [each.id async for each in client.files.list()] == []
        with pytest.raises(openai.NotFoundError):
            await client.files.retrieve(file.id)
