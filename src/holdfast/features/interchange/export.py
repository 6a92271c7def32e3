"""Owns the export of a workspace: everything as files, from one snapshot, in an order that depends on nothing else."""

from collections.abc import Callable, Iterator

from holdfast.features.artifacts import store as artifacts
from holdfast.features.intelligence import store as intelligence
from holdfast.features.intelligence.graph import relation_store as relations
from holdfast.features.intelligence.model import DecisionFilter, MilestoneFilter
from holdfast.features.interchange import store
from holdfast.features.interchange.formats import own
from holdfast.features.interchange.formats.own import Names
from holdfast.features.memory import store as memories
from holdfast.storage.database import Tx

ORIGIN = "id:"
PAGE = 200

Sink = Callable[[str, bytes], None]
"""Takes each file: its path, and its bytes."""


def write_workspace(tx: Tx, workspace_id: str, sink: Sink) -> dict[str, int]:
    """Give the sink every file; how many there are of each type."""
    known = store.origins(tx, workspace_id, ORIGIN)

    def names(id: str) -> str:
        return known.get(id, id)

    counts: dict[str, int] = {}
    for type, files in (
        ("memory", _memories(tx, workspace_id, names)),
        ("decision", _decisions(tx, workspace_id, names)),
        ("milestone", _milestones(tx, workspace_id, names)),
        ("artifact", _artifacts(tx, workspace_id, names)),
        ("relation", _relations(tx, workspace_id, names)),
    ):
        for number, path, data in files:
            sink(path, data)
            counts[type] = counts.get(type, 0) + number
    return counts


_Files = Iterator[tuple[int, str, bytes]]


def _memories(tx: Tx, workspace_id: str, names: Names) -> _Files:
    last = ""
    while rows := memories.after_slug(tx, workspace_id, last, PAGE):
        histories = memories.revisions(tx, [row.id for row in rows if row.revision > 1])
        for row in rows:
            yield (1, *own.memory_file(row, histories.get(row.id, []), names))
        last = rows[-1].slug


def _decisions(tx: Tx, workspace_id: str, names: Names) -> _Files:
    after: tuple[int, str] | None = None
    while rows := intelligence.list_decisions(tx, workspace_id, DecisionFilter(), PAGE, after):
        for row in rows:
            yield (1, *own.decision_file(row, names))
        after = rows[-1].decided_at, rows[-1].id


def _milestones(tx: Tx, workspace_id: str, names: Names) -> _Files:
    after: tuple[int, str] | None = None
    while rows := intelligence.list_milestones(tx, workspace_id, MilestoneFilter(), PAGE, after):
        for row in rows:
            yield (1, *own.milestone_file(row, names))
        after = rows[-1].occurred_at, rows[-1].id


def _artifacts(tx: Tx, workspace_id: str, names: Names) -> _Files:
    before: tuple[int, str] | None = None
    while rows := artifacts.page(tx, workspace_id, chat_id=None, type=None, limit=PAGE, before=before):
        for row in rows:
            for number in range(1, row.version + 1):
                kept = artifacts.find_version(tx, row.id, number, content_up_to=None)
                if kept is not None:
                    yield (int(number == row.version), *own.version_file(row, kept[0], kept[1] or "", names))
        before = rows[-1].updated_at, rows[-1].id


def _relations(tx: Tx, workspace_id: str, names: Names) -> _Files:
    found = []
    after: tuple[int, str] | None = None
    while rows := relations.newest(tx, workspace_id, PAGE, after=after):
        # Where something was derived from is known only where the repository is.
        found += [row for row in rows if row.author != "system" or row.end.type != "repository"]
        after = rows[-1].created_at, rows[-1].id
    # Ids here may differ from those of the origin; the files must not.
    found.sort(key=lambda row: (row.created_at, names(row.id)))
    for start in range(0, len(found), PAGE):
        some = found[start : start + PAGE]
        yield (len(some), *own.relations_file(some, names, start // PAGE + 1))
