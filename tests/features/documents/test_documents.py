"""Owns the proof of the rules of documents, on both stores."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.errors import Conflict, Forbidden, Invalid
from holdfast.engines.extract.formats import UnsupportedFormat
from holdfast.engines.extract.model import ExtractLimits
from holdfast.features.documents.ingest import INDEX_BATCH
from holdfast.features.documents.model import DocumentNotFound, EmptyFile, FileTooLarge
from holdfast.features.documents.service import ABANDONED_MILLIS
from holdfast.features.workspaces.model import WorkspaceNotFound
from holdfast.storage.database import Database
from tests.engines.extract import files
from tests.support.clock import MovableClock
from tests.support.features.library import Library, library

TABLES = ("document", "document_blob", "document_blob_part", "document_chunk", "document_chat", "search_entry")
ZOO = b"# Zoo\n\nThe giraffe is fed at noon.\n\n# Staff\n\nKim feeds the zebra.\n"


@pytest.fixture
async def here(database: Database, clock: MovableClock) -> Library:
    return await library(database, clock)


@pytest.mark.contract("XS-T9")
async def test_an_uploaded_document_is_read_indexed_and_found(here: Library) -> None:
    kept = await here.upload("zoo.md", ZOO)
    assert (kept.created, kept.document.state, kept.document.format) == (True, "queued", "markdown")

    async with here.working():
        document = await here.read(kept.document)

    assert (document.state, document.title, document.chunks) == ("ready", "Zoo", 2)
    assert (document.progress_done, document.progress_total) == (2, 2)
    found = await here.documents.search(here.principal, here.workspace_id, "who feeds the zebra?")
    assert found[0].document_id == document.id
    assert (found[0].filename, found[0].heading, found[0].chunk) == ("zoo.md", "Staff", 1)
    assert "Kim feeds the zebra." in found[0].text
    assert 0 <= found[0].score <= 1
    assert (await here.audited())[0] == "document.create"


async def test_bytes_and_text_come_back(database: Database, clock: MovableClock) -> None:
    here = await library(database, clock, limits=ExtractLimits(chunks=300))
    content = b"".join(b"Line %d of a long file.\n\n" % number for number in range(100_000))
    document = await here.add("long.txt", content)

    parts = [part async for part in here.documents.content(here.principal, here.workspace_id, document.id)]
    text = "".join([piece async for piece in here.documents.text(here.principal, here.workspace_id, document.id)])

    assert len(parts) == 3
    assert b"".join(parts) == content
    assert text.startswith("Line 0 of") and "Line 2000 of" in text


@pytest.mark.parametrize("format", ["docx", "pptx", "xlsx", "pdf"])
async def test_each_format_goes_all_the_way(sqlite_database: Database, clock: MovableClock, format: str) -> None:
    here = await library(sqlite_database, clock)
    content = {"docx": files.word(), "pptx": files.slides(), "xlsx": files.sheet(), "pdf": files.pdf("Kim")}[format]

    document = await here.add(f"file.{format}", content)

    assert (document.state, document.format) == ("ready", format)
    words = {"docx": "trains booked", "pptx": "giraffe", "xlsx": "Ada born", "pdf": "Kim"}[format]
    assert (await here.found(words, "document"))[0].id == document.id


async def test_the_same_bytes_are_one_document(here: Library) -> None:
    first = await here.upload("a.md", ZOO)
    second = await here.upload("b.md", ZOO, chat_id="chat_1")

    assert (second.created, second.document.id) == (False, first.document.id)
    assert [await here.count(table) for table in ("document", "document_blob")] == [1, 1]
    listed = await here.documents.page(here.principal, here.workspace_id, chat_id="chat_1")
    assert [each.id for each in listed.items] == [first.document.id]
    other = await library(here.database, MovableClock())
    assert (await other.upload("a.md", ZOO)).created


async def test_the_same_bytes_at_once_are_one_document(here: Library) -> None:
    kept = await asyncio.gather(*(here.upload(f"{number}.md", ZOO) for number in range(6)))

    assert sum(each.created for each in kept) == 1
    assert len({each.document.id for each in kept}) == 1
    assert [await here.count(table) for table in ("document", "document_blob", "job")] == [1, 1, 1]


async def test_a_file_that_cannot_be_read_says_why_and_may_be_sent_again(here: Library) -> None:
    broken = b"%PDF-1.7\n" + b"garbage" * 100
    failed = await here.add("bad.pdf", broken)
    assert (failed.state, failed.reason_code) == ("failed", "damaged")
    assert failed.reason is not None and "damaged" in failed.reason

    again = await here.upload("bad.pdf", broken)

    assert (again.created, again.document.state, again.document.reason) == (False, "queued", None)
    assert again.document.job_id != failed.job_id


async def test_an_empty_file_is_refused(here: Library) -> None:
    with pytest.raises(EmptyFile):
        await here.upload("empty.txt", b"")
    assert await here.count("document_blob") == 0


async def test_a_file_of_spaces_has_no_text(here: Library) -> None:
    document = await here.add("blank.txt", b"  \n \n")
    assert (document.state, document.reason_code) == ("failed", "no_text")


async def test_what_cannot_be_read_is_refused_at_once(here: Library) -> None:
    with pytest.raises(UnsupportedFormat, match="binary"):
        await here.upload("a.png", b"\x89PNG\r\n\x1a\n")
    with pytest.raises(Invalid, match="no name"):
        await here.upload("/", b"x")
    with pytest.raises(Invalid, match="chat"):
        await here.upload("a.txt", b"x", chat_id="not a chat")
    assert await here.count("document_blob") == 0


async def test_a_file_over_the_limit_is_refused_while_it_comes(database: Database, clock: MovableClock) -> None:
    here = await library(database, clock, max_bytes=3 * 1024 * 1024)
    taking = await here.documents.upload(here.principal, here.workspace_id)
    await taking.write(b"x" * 3 * 1024 * 1024)
    with pytest.raises(FileTooLarge, match="3 MB"):
        await taking.write(b"x")
    await taking.abandon()
    assert await here.count("document_blob_part") == 0


async def test_what_an_upload_left_behind_is_swept(here: Library, clock: MovableClock) -> None:
    taking = await here.documents.upload(here.principal, here.workspace_id)
    await taking.write(b"x" * 2 * 1024 * 1024)
    finished = await here.upload("zoo.md", ZOO)
    clock.advance(seconds=ABANDONED_MILLIS / 1000 + 1)

    await here.upload("other.md", b"other")

    assert await here.count("document_blob") == 2
    with pytest.raises(Conflict, match="given up"):
        await taking.write(b"x" * 1024 * 1024)
    assert (await here.documents.get(here.principal, here.workspace_id, finished.document.id)).state == "queued"


async def test_deleting_removes_everything(here: Library) -> None:
    document = await here.add("zoo.md", ZOO)
    await here.upload("zoo.md", ZOO, chat_id="chat_1")
    assert all([await here.count(table) for table in TABLES])

    await here.documents.delete(here.principal, here.workspace_id, document.id)

    assert {table: await here.count(table) for table in TABLES} == dict.fromkeys(TABLES, 0)
    assert await here.found("giraffe", "document") == []
    assert (await here.audited())[-1] == "document.delete"
    with pytest.raises(DocumentNotFound):
        await here.documents.get(here.principal, here.workspace_id, document.id)


async def test_deleting_ends_the_reading(here: Library) -> None:
    kept = await here.upload("zoo.md", ZOO)
    await here.documents.delete(here.principal, here.workspace_id, kept.document.id)

    async with here.working():
        job = await here.jobs.wait(kept.document.job_id, timeout_seconds=60)

    assert job.state == "cancelled"
    assert {table: await here.count(table) for table in TABLES} == dict.fromkeys(TABLES, 0)


async def test_deleting_in_the_middle_of_reading_leaves_nothing(here: Library) -> None:
    long = b"".join(b"Paragraph %d about the giraffe, the zebra and what they eat.\n\n" % n * 8 for n in range(1500))
    kept = await here.upload("long.txt", long)
    async with here.events.subscribe(["document.indexing"]) as events, here.working():
        await asyncio.wait_for(events.get(), 60)
        await here.documents.delete(here.principal, here.workspace_id, kept.document.id)
        await here.jobs.wait(kept.document.job_id, timeout_seconds=60)

    assert {table: await here.count(table) for table in TABLES} == dict.fromkeys(TABLES, 0)


async def test_progress_is_told_as_it_goes(here: Library) -> None:
    text = b"\n\n".join(b"Paragraph %d. " % number * 60 for number in range(2 * INDEX_BATCH + 1))
    kept = await here.upload("long.txt", text)
    seen: list[Mapping[str, Any]] = []
    async with here.events.subscribe(["document.*"], capacity=1000) as events, here.working():
        while not seen or seen[-1]["state"] != "ready":
            event = await asyncio.wait_for(events.get(), 60)
            seen.append(event.payload)

    states = list(dict.fromkeys(each["state"] for each in seen if "state" in each))
    assert states == ["extracting", "indexing", "ready"]
    indexed = [each["done"] for each in seen if each["state"] == "indexing"]
    assert indexed == sorted(indexed) and len(indexed) >= 3
    assert seen[-1]["document_id"] == kept.document.id


async def test_a_document_whose_job_died_each_time_has_failed(here: Library) -> None:
    kept = await here.upload("zoo.md", ZOO)

    await here.database.write(
        lambda tx: tx.execute(
            "UPDATE job SET state = 'failed', error = 'The process ended.', finished_at = 1 WHERE id = :id",
            {"id": kept.document.job_id},
        )
    )

    document = await here.documents.get(here.principal, here.workspace_id, kept.document.id)

    assert (document.state, document.reason) == ("failed", "The process ended.")
    assert (await here.upload("zoo.md", ZOO)).document.state == "queued"


async def test_a_text_that_is_too_long_is_indexed_from_its_beginning(
    sqlite_database: Database, clock: MovableClock
) -> None:
    here = await library(sqlite_database, clock, limits=ExtractLimits(chunks=3))
    document = await here.add("long.txt", b"word " * 5_000)
    assert (document.state, document.chunks, document.truncated) == ("ready", 3, True)


async def test_search_keeps_to_a_chat_or_to_some_documents(here: Library) -> None:
    first = await here.upload("one.md", b"The giraffe eats leaves.", chat_id="chat_1")
    second = await here.upload("two.md", b"The giraffe drinks water.", chat_id="chat_2")
    async with here.working():
        await here.read(first.document)
        await here.read(second.document)

    async def found(chat: str | None = None, ids: frozenset[str] | None = None) -> set[str]:
        passages = await here.documents.search(
            here.principal, here.workspace_id, "giraffe", chat_id=chat, document_ids=ids
        )
        return {passage.filename for passage in passages}

    assert await found() == {"one.md", "two.md"}
    assert await found("chat_1") == {"one.md"}
    assert await found("chat_3") == set()
    assert await found(ids=frozenset({second.document.id})) == {"two.md"}
    assert await found("chat_1", frozenset({second.document.id})) == set()
    assert await here.documents.has_documents(here.principal, here.workspace_id, "chat_1")
    assert not await here.documents.has_documents(here.principal, here.workspace_id, "chat_3")


async def test_lists_are_paged_newest_first(here: Library) -> None:
    ids = [(await here.upload(f"{n}.txt", b"text %d" % n)).document.id for n in range(5)]
    first = await here.documents.page(here.principal, here.workspace_id, limit=3)
    rest = await here.documents.page(here.principal, here.workspace_id, limit=3, cursor=first.next_cursor)
    assert [each.id for each in (*first.items, *rest.items)] == sorted(ids, reverse=True)
    assert rest.next_cursor is None
    ready = await here.documents.page(here.principal, here.workspace_id, state="ready")
    assert ready.items == []


async def test_another_organization_sees_nothing(here: Library) -> None:
    kept = await here.upload("zoo.md", ZOO)
    stranger, id = await here.stranger(), kept.document.id

    async def drain(values: object) -> None:
        async for _ in values:  # type: ignore[attr-defined]
            pass

    for attempt in (
        here.documents.get(stranger, here.workspace_id, id),
        here.documents.page(stranger, here.workspace_id),
        here.documents.chunks(stranger, here.workspace_id, id),
        here.documents.search(stranger, here.workspace_id, "giraffe"),
        here.documents.delete(stranger, here.workspace_id, id),
        here.documents.upload(stranger, here.workspace_id),
        drain(here.documents.content(stranger, here.workspace_id, id)),
        drain(here.documents.text(stranger, here.workspace_id, id)),
    ):
        with pytest.raises(WorkspaceNotFound):
            await attempt


async def test_reading_needs_less_than_writing(here: Library) -> None:
    kept = await here.upload("zoo.md", ZOO)
    reader = replace(here.principal, scopes=frozenset({"read"}))
    await here.documents.get(reader, here.workspace_id, kept.document.id)
    with pytest.raises(Forbidden):
        await here.documents.upload(reader, here.workspace_id)
    with pytest.raises(Forbidden):
        await here.documents.delete(reader, here.workspace_id, kept.document.id)
