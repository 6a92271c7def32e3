"""Owns the proof of the rules of artifacts, on both stores."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from holdfast.core.errors import Forbidden, Invalid
from holdfast.features.artifacts.model import (
    CHAT_BYTES,
    READ_BYTES,
    WORKSPACE_BYTES,
    ArtifactNotFound,
    ArtifactReference,
    IdentifierTaken,
    NewArtifact,
    VersionConflict,
    VersionNotFound,
)
from holdfast.features.workspaces.model import WorkspaceNotFound
from holdfast.storage.database import Database
from tests.conftest import OpenDatabase
from tests.support.clock import MovableClock
from tests.support.features.library import Library, build, library

NOTE = NewArtifact("release-notes.md", "Release notes", "text/markdown", "# Release\n\nWe ship on Tuesday.\n")


@pytest.fixture
async def here(database: Database, clock: MovableClock) -> Library:
    return await library(database, clock)


async def _create(here: Library, **changes: str | None) -> str:
    values = {**{name: getattr(NOTE, name) for name in NOTE.__dataclass_fields__}, **changes}
    return (await here.artifacts.create(here.principal, here.workspace_id, NewArtifact(**values))).id


async def _update(here: Library, artifact_id: str, content: str) -> int:
    reference = ArtifactReference(artifact_id)
    return (await here.artifacts.update(here.principal, here.workspace_id, reference, content)).version


@pytest.mark.contract("XM-6")
async def test_a_new_artifact_is_version_one_and_reads_back(here: Library) -> None:
    made = await here.artifacts.create(here.principal, here.workspace_id, NOTE)

    reading = await here.artifacts.read(here.principal, here.workspace_id, made.id)

    assert made.version == 1
    assert reading.content == NOTE.content
    assert reading.version.author == "key_test"
    assert reading.artifact == made
    assert await here.audited() == ["artifact.create"]


@pytest.mark.contract("XS-T6")
async def test_every_version_stays_readable(here: Library) -> None:
    id = await _create(here)
    for number in range(2, 6):
        assert await _update(here, id, f"text {number}") == number

    texts = [(await here.artifacts.read(here.principal, here.workspace_id, id, version=n)).content for n in range(1, 6)]
    listed = await here.artifacts.versions(here.principal, here.workspace_id, id)

    assert texts == [NOTE.content, "text 2", "text 3", "text 4", "text 5"]
    assert [each.version for each in listed.items] == [5, 4, 3, 2, 1]
    with pytest.raises(VersionNotFound):
        await here.artifacts.read(here.principal, here.workspace_id, id, version=6)


@pytest.mark.parametrize("identifier", ["", "a b", "ünï", "a/b", "x" * 129, "a\n", "é"])
async def test_a_wrong_identifier_is_refused(sqlite_database: Database, clock: MovableClock, identifier: str) -> None:
    here = await library(sqlite_database, clock)
    with pytest.raises(Invalid) as problem:
        await _create(here, identifier=identifier)
    assert [wrong.field for wrong in problem.value.fields] == ["identifier"]


@pytest.mark.parametrize(
    ("type", "right"),
    [
        ("text/markdown", True),
        ("text/html", True),
        ("text/plain", True),
        ("image/svg+xml", True),
        ("text/x-mermaid", True),
        ("application/json", True),
        ("text/x-python", True),
        ("text/x-c++", True),
        ("TEXT/Markdown", True),
        ("text/x-", False),
        ("image/png", False),
        ("text/markdown; charset=utf-8", False),
        ("", False),
    ],
)
async def test_only_listed_types_are_kept(
    sqlite_database: Database, clock: MovableClock, type: str, right: bool
) -> None:
    here = await library(sqlite_database, clock)
    if right:
        await _create(here, type=type)
    else:
        with pytest.raises(Invalid, match="cannot be kept"):
            await _create(here, type=type)


async def test_an_identifier_is_unique_in_a_chat_and_in_the_workspace(here: Library) -> None:
    await _create(here)
    await _create(here, chat_id="chat_1")
    await _create(here, chat_id="chat_2")

    for chat in (None, "chat_1"):
        with pytest.raises(IdentifierTaken):
            await _create(here, chat_id=chat)


async def test_an_identifier_names_the_artifact_of_its_own_chat(here: Library) -> None:
    of_workspace = await _create(here)
    of_chat = await _create(here, chat_id="chat_1")

    async def named(chat: str | None) -> str:
        reference = ArtifactReference(identifier=NOTE.identifier, chat_id=chat)
        return (await here.artifacts.update(here.principal, here.workspace_id, reference, "new")).id

    assert await named(None) == of_workspace
    assert await named("chat_1") == of_chat
    with pytest.raises(ArtifactNotFound):
        await named("chat_2")


@pytest.mark.contract("XM-6")
async def test_content_over_one_mebibyte_reads_as_metadata(here: Library) -> None:
    id = await _create(here, content="x" * READ_BYTES)
    assert (await here.artifacts.read(here.principal, here.workspace_id, id)).content is not None
    await _update(here, id, "y" * (READ_BYTES + 1))

    reading = await here.artifacts.read(here.principal, here.workspace_id, id)
    _, whole = await here.artifacts.download(here.principal, here.workspace_id, id)

    assert reading.content is None
    assert reading.version.size_bytes == READ_BYTES + 1
    assert whole == "y" * (READ_BYTES + 1)


@pytest.mark.contract("XS-T6")
async def test_a_chat_keeps_at_most_one_megabyte(here: Library) -> None:
    id = await _create(here, chat_id="chat_1", content="x" * CHAT_BYTES)
    with pytest.raises(Invalid, match="cannot be kept") as problem:
        await _update(here, id, "é" * (CHAT_BYTES // 2 + 1))
    assert "1 MiB" in problem.value.fields[0].message
    with pytest.raises(Invalid):
        await _create(here, identifier="large", content="x" * (WORKSPACE_BYTES + 1))


@pytest.mark.parametrize("content", ["a\0b", "\ud800"])
async def test_content_that_no_store_can_hold_is_refused(here: Library, content: str) -> None:
    with pytest.raises(Invalid) as problem:
        await _create(here, content=content)
    assert problem.value.fields[0].field == "content"


async def test_two_writers_lose_no_version(open_database: OpenDatabase, clock: MovableClock) -> None:
    """Two servers on one store, each with its own connections, update the same artifact at once."""
    first, second = open_database(), open_database()
    try:
        here = await library(first, clock)
        there = build(second, clock, here.principal.organization_id, here.workspace_id)
        id = await _create(here)

        async def write(world: Library, name: str) -> list[int]:
            return [await _update(world, id, f"{name} {number}") for number in range(15)]

        async def all_of(world: Library) -> AsyncIterator[str]:
            for version in range(1, 62):
                reading = await world.artifacts.read(world.principal, world.workspace_id, id, version=version)
                yield reading.content or ""

        names = ["here a", "here b", "there a", "there b"]
        worlds = [here, here, there, there]
        taken = await asyncio.gather(*(write(world, name) for world, name in zip(worlds, names, strict=True)))

        contents = {text async for text in all_of(here)}
        assert sorted(number for numbers in taken for number in numbers) == list(range(2, 62))
        assert contents == {NOTE.content, *(f"{name} {number}" for name in names for number in range(15))}
    finally:
        await first.close()
        await second.close()


async def test_creating_the_same_identifier_at_once_makes_one(here: Library) -> None:
    made = await asyncio.gather(*(_create(here) for _ in range(8)), return_exceptions=True)

    assert sum(isinstance(each, str) for each in made) == 1
    assert sum(isinstance(each, IdentifierTaken) for each in made) == 7
    assert await here.count("artifact") == 1


async def test_a_blind_update_is_refused_when_the_caller_asked_so(here: Library) -> None:
    id = await _create(here)
    await _update(here, id, "somebody else's")

    with pytest.raises(VersionConflict, match="at version 2, not 1"):
        await here.artifacts.update(
            here.principal, here.workspace_id, ArtifactReference(id), "mine", expected_version=1
        )
    made = await here.artifacts.update(
        here.principal, here.workspace_id, ArtifactReference(id), "mine", expected_version=2
    )
    assert made.version == 3


async def test_search_finds_the_newest_version_only(here: Library) -> None:
    id = await _create(here, content="# Plan\n\nThe giraffe is fed at noon.")
    assert [hit.id for hit in await here.found("giraffe", "artifact")] == [id]

    await _update(here, id, "The zebra is fed at noon.")

    assert not any("giraffe" in hit.text for hit in await here.found("giraffe", "artifact"))
    hits = await here.found("zebra", "artifact")
    assert hits[0].id == id
    assert hits[0].meta["identifier"] == NOTE.identifier


async def test_markup_is_searched_by_its_words(here: Library) -> None:
    page = "<html><style>p{color:mauve}</style><p>Ada &amp; <b>Grace</b></p><script>let hopper</script></html>"
    await _create(here, type="text/html", content=page)

    hits = await here.found("Grace", "artifact")

    assert "Ada &" in hits[0].text
    assert "mauve" not in hits[0].text
    assert "hopper" not in hits[0].text


async def test_what_spells_out_binary_files_in_a_patch_is_kept_and_not_searched(here: Library) -> None:
    content = (
        "diff --git a/a.bin b/a.bin\nGIT binary patch\nliteral 4\nLc${Nk-haystack\n\nliteral 0\nHcmV?d00001\n\n"
        "diff --git a/b.py b/b.py\n--- a/b.py\n+++ b/b.py\n@@ -0,0 +1 @@\n+a turquoise crane\n"
    )
    id = await _create(here, type="text/x-diff", content=content)
    (hit,) = await here.found("turquoise crane", "artifact")
    assert hit.id == id
    assert "haystack" not in hit.text


async def test_deleting_removes_versions_and_what_search_knows(here: Library) -> None:
    id = await _create(here, content="The giraffe is fed at noon.")
    await _update(here, id, "The giraffe is fed at one.")

    await here.artifacts.delete(here.principal, here.workspace_id, id)

    assert await here.count("artifact") == 0
    assert await here.count("artifact_version") == 0
    assert await here.found("giraffe", "artifact") == []
    assert (await here.audited())[-1] == "artifact.delete"
    with pytest.raises(ArtifactNotFound):
        await here.artifacts.read(here.principal, here.workspace_id, id)
    await _create(here)


async def test_lists_are_filtered_counted_and_paged(here: Library, clock: MovableClock) -> None:
    ids = []
    for number in range(5):
        clock.advance(seconds=1)
        chat = "chat_1" if number % 2 else None
        ids.append(await _create(here, identifier=f"n{number}", chat_id=chat))
    clock.advance(seconds=1)
    await _update(here, ids[0], "changed last")

    found, total = await here.artifacts.list(here.principal, here.workspace_id, limit=2, offset=1)
    assert ([each.id for each in found], total) == ([ids[4], ids[3]], 5)
    found, total = await here.artifacts.list(here.principal, here.workspace_id, chat_id="chat_1")
    assert ([each.id for each in found], total) == ([ids[3], ids[1]], 2)
    found, total = await here.artifacts.list(here.principal, here.workspace_id, type="text/html")
    assert (found, total) == ([], 0)

    seen: list[str] = []
    cursor = None
    while True:
        page = await here.artifacts.page(here.principal, here.workspace_id, limit=2, cursor=cursor)
        seen += [each.id for each in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [ids[0], ids[4], ids[3], ids[2], ids[1]]


async def test_the_difference_of_two_versions_is_a_unified_diff(here: Library) -> None:
    id = await _create(here, content="one\ntwo\nthree\n")
    await _update(here, id, "one\n2\nthree\nfour\n")

    change = await here.artifacts.diff(here.principal, here.workspace_id, id)

    assert (change.from_version, change.to_version) == (1, 2)
    assert (change.added_lines, change.removed_lines) == (2, 1)
    assert change.diff.splitlines()[2:] == ["@@ -1,3 +1,4 @@", " one", "-two", "+2", " three", "+four"]


async def test_an_update_is_told_to_listeners(here: Library) -> None:
    with_chat = await _create(here, chat_id="chat_1")
    async with here.events.subscribe(["artifact.*"], workspace_ids=[here.workspace_id]) as events:
        await _update(here, with_chat, "again")
        event = await asyncio.wait_for(events.get(), 10)

    assert event.topic == "artifact.update"
    assert event.payload["identifier"] == NOTE.identifier
    assert event.payload["version"] == 2
    assert event.payload["chat_id"] == "chat_1"


async def test_another_organization_sees_nothing(here: Library) -> None:
    id = await _create(here)
    stranger = await here.stranger()
    service, reference = here.artifacts, ArtifactReference(id)

    for attempt in (
        lambda: service.read(stranger, here.workspace_id, id),
        lambda: service.update(stranger, here.workspace_id, reference, "x"),
        lambda: service.list(stranger, here.workspace_id),
        lambda: service.versions(stranger, here.workspace_id, id),
        lambda: service.diff(stranger, here.workspace_id, id),
        lambda: service.delete(stranger, here.workspace_id, id),
        lambda: service.create(stranger, here.workspace_id, NOTE),
    ):
        with pytest.raises(WorkspaceNotFound):
            await attempt()


async def test_an_artifact_of_another_workspace_is_not_found(here: Library) -> None:
    id = await _create(here)
    other = await library(here.database, MovableClock())
    with pytest.raises(ArtifactNotFound):
        await other.artifacts.read(other.principal, other.workspace_id, id)


async def test_reading_needs_less_than_writing(here: Library) -> None:
    id = await _create(here)
    reader = here.with_scopes("read")
    assert (await here.artifacts.read(reader, here.workspace_id, id)).content == NOTE.content
    with pytest.raises(Forbidden):
        await here.artifacts.update(reader, here.workspace_id, ArtifactReference(id), "x")
    with pytest.raises(Forbidden):
        await here.artifacts.delete(reader, here.workspace_id, id)
    with pytest.raises(Forbidden):
        await here.artifacts.read(here.with_scopes("management"), here.workspace_id, id)
