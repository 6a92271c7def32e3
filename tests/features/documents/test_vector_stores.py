"""Owns the proof of the rules of vector stores, on both stores."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from holdfast.core.errors import Forbidden, Invalid
from holdfast.features.documents.filters import Comparison, Compound, Filter
from holdfast.features.documents.vector_stores.model import (
    ListPart,
    VectorStoreChange,
    VectorStoreExpired,
    VectorStoreFileNotFound,
    VectorStoreNotFound,
)
from holdfast.features.documents.vector_stores.service import VectorStoreService
from holdfast.features.workspaces.model import WorkspaceNotFound
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.features.library import Library, library

_FILTER: TypeAdapter[Comparison | Compound] = TypeAdapter(Filter)


@pytest.fixture
async def here(database: Database, clock: MovableClock) -> Library:
    return await library(database, clock)


@pytest.fixture
def stores(here: Library, clock: MovableClock) -> VectorStoreService:
    return VectorStoreService(here.database, here.audit, here.workspaces, here.documents, clock)


def _at(here: Library) -> tuple[Any, str]:
    return here.principal, here.workspace_id


async def _read(here: Library, **texts: str) -> dict[str, str]:
    """Documents with these texts, read; their ids by name."""
    kept = {name: (await here.upload(f"{name}.txt", text.encode())).document for name, text in texts.items()}
    async with here.working():
        for document in kept.values():
            await here.read(document)
    return {name: document.id for name, document in kept.items()}


async def test_rows_that_only_fill_the_list_are_left_out_unless_a_threshold_is_given(
    here: Library, stores: VectorStoreService
) -> None:
    """`limit` is a maximum, and a client that gives a threshold gets everything from it on, as with OpenAI."""
    ids = await _read(
        here,
        giraffe="The giraffe eats acacia leaves in the morning.",
        tax="Taxes are due on the first of the month; those who pay late eat less cake with their clerks in autumn.",
        wood="Oak burns longer than pine; rake dry leaves, stack the logs and wait for two long winters.",
    )
    made = await stores.create(*_at(here), file_ids=list(ids.values()))
    asked = "When does the giraffe eat acacia leaves?"
    found = await stores.search(*_at(here), [made.id], asked)
    assert [each.passage.filename for each in found] == ["giraffe.txt"]
    every = await stores.search(*_at(here), [made.id], asked, score_threshold=0.0)
    assert len(every) == 3
    passages = await here.documents.search(*_at(here), asked)
    assert [each.filename for each in passages] == ["giraffe.txt"]
    assert await here.documents.search(*_at(here), "quantum chromodynamics lecture") == []


@pytest.mark.contract("XS-T9")
async def test_a_store_searches_its_own_files_only(here: Library, stores: VectorStoreService) -> None:
    ids = await _read(
        here, one="The giraffe eats leaves.", two="The giraffe drinks water.", three="The giraffe sleeps."
    )
    made = await stores.create(*_at(here), name=" Zoo ", file_ids=[ids["one"]], metadata={"kind": "test"})
    await stores.add_file(*_at(here), made.id, ids["two"], {"year": 2024})

    found = await stores.search(*_at(here), [made.id], "giraffe")

    assert {each.passage.filename for each in found} == {"one.txt", "two.txt"}
    now = await stores.get(*_at(here), made.id)
    assert (now.name, now.metadata, now.counts.completed, now.counts.total) == ("Zoo", {"kind": "test"}, 2, 2)
    assert now.status(0) == "completed"
    assert now.usage_bytes == len("The giraffe eats leaves.") + len("The giraffe drinks water.")


async def test_filters_choose_by_attributes(here: Library, stores: VectorStoreService) -> None:
    ids = await _read(here, one="The giraffe eats leaves.", two="The giraffe drinks water.")
    made = await stores.create(*_at(here))
    await stores.add_file(*_at(here), made.id, ids["one"], {"year": 2024, "zoo": "Ulm"})
    await stores.add_file(*_at(here), made.id, ids["two"], {"year": 2025, "zoo": "Kiel"})

    async def found(filter: Comparison | Compound) -> set[str]:
        passages = await stores.search(*_at(here), [made.id], "giraffe", filter=filter)
        return {each.passage.filename for each in passages}

    assert await found(Comparison(type="gte", key="year", value=2025)) == {"two.txt"}
    assert await found(Comparison(type="in", key="zoo", value=["Ulm", "Bonn"])) == {"one.txt"}
    assert await found(Comparison(type="eq", key="zoo", value="Bonn")) == set()


@pytest.mark.parametrize(
    ("filter", "passes"),
    [
        ({"type": "eq", "key": "n", "value": 1}, True),
        ({"type": "eq", "key": "n", "value": True}, False),
        ({"type": "eq", "key": "flag", "value": True}, True),
        ({"type": "ne", "key": "n", "value": 1}, False),
        ({"type": "ne", "key": "missing", "value": 1}, True),
        ({"type": "gt", "key": "n", "value": 1}, False),
        ({"type": "gte", "key": "n", "value": 1}, True),
        ({"type": "lt", "key": "s", "value": "b"}, True),
        ({"type": "lt", "key": "s", "value": 5}, False),
        ({"type": "lte", "key": "missing", "value": 5}, False),
        ({"type": "nin", "key": "s", "value": ["x"]}, True),
        ({"type": "in", "key": "s", "value": ["a", "x"]}, True),
        (
            {
                "type": "and",
                "filters": [{"type": "eq", "key": "n", "value": 1}, {"type": "eq", "key": "s", "value": "z"}],
            },
            0,
        ),
        (
            {
                "type": "or",
                "filters": [{"type": "eq", "key": "n", "value": 1}, {"type": "eq", "key": "s", "value": "z"}],
            },
            1,
        ),
    ],
)
def test_a_filter_compares_like_with_like(filter: dict[str, Any], passes: bool) -> None:
    attributes: dict[str, Any] = {"n": 1.0, "flag": True, "s": "a"}
    assert _FILTER.validate_python(filter).allows(attributes) == bool(passes)


def test_a_malformed_filter_is_refused() -> None:
    deep: dict[str, Any] = {"type": "eq", "key": "a", "value": 1}
    for _ in range(2000):
        deep = {"type": "and", "filters": [deep]}
    for wrong in ({"type": "like", "key": "a", "value": 1}, {"type": "and", "filters": []}, {"type": "eq"}, deep):
        with pytest.raises((ValidationError, RecursionError)):
            _FILTER.validate_python(wrong)


async def test_files_are_listed_changed_and_removed(
    here: Library, stores: VectorStoreService, clock: MovableClock
) -> None:
    ids = []
    made = await stores.create(*_at(here))
    for number in range(5):
        clock.advance(seconds=1)
        document = (await here.upload(f"{number}.txt", b"text %d" % number)).document
        await stores.add_file(*_at(here), made.id, document.id)
        ids.append(document.id)

    first, more = await stores.files(*_at(here), made.id, ListPart(limit=2))
    assert ([each.document_id for each in first], more) == ([ids[4], ids[3]], True)
    rest, more = await stores.files(*_at(here), made.id, ListPart(limit=9, after=ids[3]))
    assert ([each.document_id for each in rest], more) == ([ids[2], ids[1], ids[0]], False)
    rising, _ = await stores.files(*_at(here), made.id, ListPart(limit=9, descending=False, before=ids[2]))
    assert [each.document_id for each in rising] == [ids[0], ids[1]]
    done, _ = await stores.files(*_at(here), made.id, ListPart(), "completed")
    waiting, _ = await stores.files(*_at(here), made.id, ListPart(), "in_progress")
    assert (len(done), len(waiting)) == (0, 5)

    changed = await stores.set_attributes(*_at(here), made.id, ids[0], {"a": "b"})
    assert (await stores.file(*_at(here), made.id, ids[0])) == changed
    await stores.remove_file(*_at(here), made.id, ids[0])
    with pytest.raises(VectorStoreFileNotFound):
        await stores.remove_file(*_at(here), made.id, ids[0])
    assert (await here.documents.get(*_at(here), ids[0])).id == ids[0]


async def test_counts_follow_the_documents(here: Library, stores: VectorStoreService) -> None:
    good = (await here.upload("good.txt", b"words")).document
    bad = (await here.upload("bad.pdf", b"%PDF-1.7 nothing")).document
    made = await stores.create(*_at(here), file_ids=[good.id, bad.id])
    assert (made.counts.in_progress, made.status(0)) == (2, "in_progress")
    async with here.working():
        await here.read(good)
        await here.read(bad)

    now = await stores.get(*_at(here), made.id)
    assert (now.counts.completed, now.counts.failed, now.counts.in_progress) == (1, 1, 0)
    failed = await stores.file(*_at(here), made.id, bad.id)
    assert (failed.status, failed.reason_code) == ("failed", "damaged")
    await here.documents.delete(*_at(here), bad.id)
    assert (await stores.get(*_at(here), made.id)).counts.total == 1


async def test_an_unused_store_expires_and_can_be_revived(
    here: Library, stores: VectorStoreService, clock: MovableClock
) -> None:
    made = await stores.create(*_at(here), expires_after_days=2)
    clock.advance(days=1.5)
    await stores.search(*_at(here), [made.id], "anything")
    clock.advance(days=1.5)
    assert (await stores.get(*_at(here), made.id)).status(clock.now()) == "completed"
    clock.advance(days=1)
    with pytest.raises(VectorStoreExpired):
        await stores.search(*_at(here), [made.id], "anything")

    revived = await stores.modify(*_at(here), made.id, VectorStoreChange(name="Again", never_expires=True))

    assert (revived.name, revived.expires_at) == ("Again", None)
    assert await stores.search(*_at(here), [made.id], "anything") == []


async def test_stores_are_listed_in_both_directions(here: Library, stores: VectorStoreService) -> None:
    ids = [(await stores.create(*_at(here), name=str(number))).id for number in range(4)]
    ids.sort()
    newest, more = await stores.list(*_at(here), ListPart(limit=3))
    assert ([each.id for each in newest], more) == (ids[:0:-1], True)
    oldest, more = await stores.list(*_at(here), ListPart(limit=9, descending=False, after=ids[1]))
    assert ([each.id for each in oldest], more) == (ids[2:], False)
    await stores.delete(*_at(here), ids[0])
    with pytest.raises(VectorStoreNotFound):
        await stores.get(*_at(here), ids[0])


async def test_what_is_wrong_is_refused_by_name(here: Library, stores: VectorStoreService) -> None:
    made = await stores.create(*_at(here))
    other = await library(here.database, MovableClock())
    elsewhere = (await other.upload("a.txt", b"elsewhere")).document.id
    for call, field in (
        (stores.create(*_at(here), file_ids=[elsewhere]), "file_ids[0]"),
        (stores.add_file(*_at(here), made.id, elsewhere), "file_id"),
        (stores.create(*_at(here), name="x" * 300), "name"),
        (stores.create(*_at(here), metadata={str(n): "" for n in range(17)}), "metadata"),
        (stores.create(*_at(here), metadata={"a": "x" * 600}), "metadata.a"),
        (stores.create(*_at(here), expires_after_days=0), "expires_after.days"),
    ):
        with pytest.raises(Invalid) as problem:
            await call
        assert problem.value.fields[0].field == field
    assert len((await stores.list(*_at(here), ListPart()))[0]) == 1


async def test_a_store_is_its_organizations_own(here: Library, stores: VectorStoreService) -> None:
    made = await stores.create(*_at(here))
    stranger = await here.stranger()
    with pytest.raises(WorkspaceNotFound):
        await stores.get(stranger, here.workspace_id, made.id)
    with pytest.raises(WorkspaceNotFound):
        await stores.search(stranger, here.workspace_id, [made.id], "x")
    with pytest.raises(Forbidden):
        await stores.delete(here.with_scopes("read"), here.workspace_id, made.id)
