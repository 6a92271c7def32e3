"""Owns the export of a workspace: everything as files, from one snapshot, in an order that depends on nothing else."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from holdfast.features.artifacts import store as artifacts
from holdfast.features.cases import store as cases
from holdfast.features.cases.model import CaseFilter, NewLink
from holdfast.features.cases.proofs import store as proofs
from holdfast.features.collections import store as collections
from holdfast.features.collections.model import CollectionVector
from holdfast.features.documents import store as documents
from holdfast.features.documents.model import Document
from holdfast.features.intelligence import store as intelligence
from holdfast.features.intelligence.graph import relation_store as relations
from holdfast.features.intelligence.model import DecisionFilter, MilestoneFilter, Ref
from holdfast.features.interchange import store
from holdfast.features.interchange.formats import own
from holdfast.features.interchange.formats.records import Names
from holdfast.features.interchange.model import KeptCase
from holdfast.features.memory import store as memories
from holdfast.features.repositories.model import COMMIT
from holdfast.features.synthesis import publishing
from holdfast.storage.database import Tx

ORIGIN = "id:"
PAGE = 200
VECTORS_PAGE = 40
"""Texts are long: a file stays below what an import reads of one."""
CONTENT_BYTES = 64 * 1024 * 1024
"""Of one file of a document's bytes; a larger document has several."""

Sink = Callable[[str, bytes], None]
"""Takes each file: its path, and its bytes."""


def write_workspace(
    tx: Tx, workspace_id: str, sink: Sink, vectors: Iterable[CollectionVector], *, derived: bool
) -> dict[str, int]:
    """Give the sink every file, with what repositories give again if so asked; how many there are of each type."""
    known = store.origins(tx, workspace_id, ORIGIN)
    passed_over = frozenset[tuple[str, str]]() if derived else publishing.derived(tx, workspace_id)

    def names(id: str) -> str:
        return known.get(id, id)

    counts: dict[str, int] = {}
    for type, files in (
        ("memory", _memories(tx, workspace_id, names)),
        ("decision", _decisions(tx, workspace_id, names, passed_over)),
        ("milestone", _milestones(tx, workspace_id, names, passed_over)),
        ("artifact", _artifacts(tx, workspace_id, names, passed_over)),
        ("document", _documents(tx, workspace_id, names)),
        ("case", _cases(tx, workspace_id, names)),
        ("record", _records(tx, workspace_id, names)),
        ("vector", _vectors(vectors, names)),
        ("relation", _relations(tx, workspace_id, names, passed_over)),
    ):
        for number, path, data in files:
            sink(path, data)
            counts[type] = counts.get(type, 0) + number
    return counts


_Derived = frozenset[tuple[str, str]]
_Files = Iterator[tuple[int, str, bytes]]


def _memories(tx: Tx, workspace_id: str, names: Names) -> _Files:
    last = ""
    while rows := memories.after_slug(tx, workspace_id, last, PAGE):
        histories = memories.revisions(tx, [row.id for row in rows if row.revision > 1])
        for row in rows:
            yield (1, *own.memory_file(row, histories.get(row.id, []), names))
        last = rows[-1].slug


def _decisions(tx: Tx, workspace_id: str, names: Names, derived: _Derived) -> _Files:
    after: tuple[int, str] | None = None
    while rows := intelligence.list_decisions(tx, workspace_id, DecisionFilter(), PAGE, after):
        for row in rows:
            if ("decision", row.id) not in derived:
                yield (1, *own.decision_file(row, names))
        after = rows[-1].decided_at, rows[-1].id


def _milestones(tx: Tx, workspace_id: str, names: Names, derived: _Derived) -> _Files:
    after: tuple[int, str] | None = None
    while rows := intelligence.list_milestones(tx, workspace_id, MilestoneFilter(), PAGE, after):
        for row in rows:
            if ("milestone", row.id) not in derived:
                yield (1, *own.milestone_file(row, names))
        after = rows[-1].occurred_at, rows[-1].id


def _artifacts(tx: Tx, workspace_id: str, names: Names, derived: _Derived) -> _Files:
    before: tuple[int, str] | None = None
    while rows := artifacts.page(tx, workspace_id, chat_id=None, type=None, limit=PAGE, before=before):
        for row in rows:
            if ("artifact", row.id) in derived:
                continue
            for number in range(1, row.version + 1):
                kept = artifacts.find_version(tx, row.id, number, content_up_to=None)
                if kept is not None:
                    yield (int(number == row.version), *own.version_file(row, kept[0], kept[1] or "", names))
        before = rows[-1].updated_at, rows[-1].id


def _documents(tx: Tx, workspace_id: str, names: Names) -> _Files:
    last: str | None = None
    while rows := documents.page(tx, workspace_id, chat_id=None, state=None, before=last, limit=PAGE):
        for row in rows:
            yield (1, *own.document_file(row, names))
            for number, data in enumerate(_contents(tx, row), 1):
                yield 0, own.content_path(row, names, number, only=row.size_bytes <= CONTENT_BYTES), data
        last = rows[-1].id


def _cases(tx: Tx, workspace_id: str, names: Names) -> _Files:
    after: tuple[int, str] | None = None
    while rows := cases.page(tx, [workspace_id], CaseFilter(), PAGE, after):
        for row in rows:
            links = cases.links(tx, [row.id])
            whole = KeptCase(
                file="",
                case=row,
                links=tuple(NewLink(each.type, each.to_id) for each in links if each.from_id == row.id),
                proofs=tuple(proofs.of_case(tx, row.id)),
                comments=tuple(cases.comments(tx, row.id)),
                history=tuple(cases.history(tx, row.id)),
            )
            yield (1, *own.case_file(whole, names))
        after = rows[-1].created_at, rows[-1].id


def _records(tx: Tx, workspace_id: str, names: Names) -> _Files:
    last = ""
    while rows := collections.page(tx, workspace_id, None, None, last, PAGE):
        for row in rows:
            yield (1, *own.record_file(row, names))
        last = rows[-1].id


def _vectors(kept: Iterable[CollectionVector], names: Names) -> _Files:
    some: list[CollectionVector] = []
    page = 1
    for each in kept:
        some.append(each)
        if len(some) == VECTORS_PAGE:
            yield (len(some), *own.vectors_file(some, names, page))
            some, page = [], page + 1
    if some:
        yield (len(some), *own.vectors_file(some, names, page))


def _contents(tx: Tx, document: Document) -> Iterator[bytes]:
    """A document's bytes, as many at a time as a file has."""
    held = bytearray()
    number = 0
    while (part := documents.part(tx, document.id, number)) is not None:
        if len(held) + len(part) > CONTENT_BYTES:
            yield bytes(held)
            held.clear()
        held += part
        number += 1
    if held:
        yield bytes(held)


def _anywhere(ref: Ref) -> Ref:
    """A commit by its hash alone: another store has its repository under another id."""
    return Ref(COMMIT, ref.id.rpartition("/")[2]) if ref.type == COMMIT else ref


def _relations(tx: Tx, workspace_id: str, names: Names, derived: _Derived) -> _Files:
    found = []
    after: tuple[int, str] | None = None
    while rows := relations.newest(tx, workspace_id, PAGE, after=after):
        # Where something was derived from is known only where the repository is.
        found += [
            row
            for row in rows
            if (row.author != "system" or row.end.type != "repository")
            and derived.isdisjoint({(row.start.type, row.start.id), (row.end.type, row.end.id)})
        ]
        after = rows[-1].created_at, rows[-1].id
    # Ids here may differ from those of the origin; the files must not.
    found.sort(key=lambda row: (row.created_at, names(row.id)))
    for start in range(0, len(found), PAGE):
        some = [replace(row, start=_anywhere(row.start), end=_anywhere(row.end)) for row in found[start : start + PAGE]]
        edges = collections.facts_of_edges(tx, workspace_id, [row.id for row in some])
        yield (len(some), *own.relations_file(some, edges, names, start // PAGE + 1))
