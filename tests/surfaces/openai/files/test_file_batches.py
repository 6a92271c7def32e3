"""Proves batches of files with the official client, and what a cancelled one leaves, on each store."""

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from holdfast.core.errors import Invalid
from holdfast.features.documents.vector_stores.batches import BatchFile, FileBatches, FileBatchNotFound
from holdfast.features.documents.vector_stores.model import ListPart
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.server import TestServer
from tests.support.world import new_world


@pytest.fixture
async def client(server: TestServer) -> AsyncIterator[AsyncOpenAI]:
    url = f"{server.url}/{server.start.project_id}/default/v1"
    async with AsyncOpenAI(base_url=url, api_key=server.key, max_retries=0) as made:
        yield made


@pytest.mark.slow
@pytest.mark.contract("XS-T9")
async def test_the_client_uploads_and_waits_for_a_batch(client: AsyncOpenAI) -> None:
    store = await client.vector_stores.create(name="Notes")
    files: Any = [("one.txt", b"The lighthouse keeper is Marit."), ("two.txt", b"The ferry leaves at nine.")]
    batches = client.vector_stores.file_batches
    done = await batches.upload_and_poll(store.id, files=files, poll_interval_ms=20)
    listed = [file.id async for file in batches.list_files(done.id, vector_store_id=store.id, limit=1)]
    third = await client.files.create(file=("three.txt", b"The bell rings at noon."), purpose="assistants")
    specs: Any = [{"file_id": third.id, "attributes": {"kind": "bell"}}]
    more = await batches.create_and_poll(store.id, files=specs, poll_interval_ms=20)
    found = await client.vector_stores.search(
        store.id, query="bell", filters={"type": "eq", "key": "kind", "value": "bell"}
    )

    assert (done.status, done.file_counts.total, done.file_counts.completed) == ("completed", 2, 2)
    assert (len(listed), third.id in listed) == (2, False)
    assert (more.object, more.status, more.vector_store_id) == ("vector_store.files_batch", "completed", store.id)
    assert [each.file_id for each in found.data] == [third.id]
    assert (await client.vector_stores.retrieve(store.id)).file_counts.completed == 3
    again = await batches.retrieve(more.id, vector_store_id=store.id)
    assert (again.id, again.file_counts.completed) == (more.id, 1)
    assert (await batches.cancel(more.id, vector_store_id=store.id)).status == "completed"


async def test_what_makes_no_batch_is_refused_and_nothing_is_added(client: AsyncOpenAI) -> None:
    store = await client.vector_stores.create(name="Notes")
    other = await client.vector_stores.create(name="Other")
    file = await client.files.create(file=("one.txt", b"A text."), purpose="assistants")
    create: Any = client.vector_stores.file_batches.create
    for body, field in (
        ({}, "file_ids"),
        ({"file_ids": []}, "file_ids"),
        ({"file_ids": [file.id], "files": [{"file_id": file.id}]}, "file_ids"),
        ({"file_ids": [file.id, "doc_nothing"]}, "file_ids[1]"),
        ({"files": [{"file_id": file.id, "attributes": {"a": "x" * 600}}]}, "files[0].attributes.a"),
    ):
        with pytest.raises(openai.BadRequestError) as wrong:
            await create(store.id, **body)
        assert wrong.value.param == field
    assert (await client.vector_stores.retrieve(store.id)).file_counts.total == 0
    made = await create(store.id, file_ids=[file.id])
    with pytest.raises(openai.NotFoundError):
        await client.vector_stores.file_batches.retrieve(made.id, vector_store_id=other.id)


async def test_cancelling_takes_out_what_was_not_read_yet(database: Database, clock: MovableClock) -> None:
    world = await new_world(database, clock)
    owner, space, services = world.owner, world.start.workspace_id, world.services
    ids = []
    for number in range(3):
        upload = await services.documents.upload(owner, space)
        await upload.write(f"Text {number}".encode())
        ids.append((await upload.finish(f"{number}.txt", "text/plain", None)).document.id)
    batches = services[FileBatches]
    store = await services.vector_stores.create(owner, space, name="Notes")
    await database.write(lambda tx: tx.execute("UPDATE document SET state = 'ready' WHERE id = :id", {"id": ids[0]}))
    made = await batches.create(owner, space, store.id, [BatchFile(id, {}) for id in ids], "file_ids")
    cancelled = await batches.cancel(owner, space, store.id, made.id)
    left, more = await batches.files(owner, space, store.id, made.id, ListPart())

    assert (made.status, made.counts.in_progress, made.counts.completed) == ("in_progress", 2, 1)
    assert (cancelled.status, cancelled.counts.cancelled, cancelled.counts.completed) == ("cancelled", 2, 1)
    assert ([file.document_id for file in left], more) == ([ids[0]], False)
    assert (await batches.cancel(owner, space, store.id, made.id)).status == "cancelled"
    with pytest.raises(FileBatchNotFound):
        await batches.get(owner, space, store.id, "vsfb_nothing")
    with pytest.raises(Invalid):
        await batches.create(owner, space, store.id, [], "file_ids")
    await services.web.close()
