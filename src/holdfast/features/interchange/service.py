"""Owns import and export: who may, in batches that survive a stop, with a report that names each file left out."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice

from holdfast.core.clock import Clock
from holdfast.core.ids import new_id
from holdfast.core.principal import Principal
from holdfast.engines.events.bus import EventBus
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.artifacts.passages import passages_of
from holdfast.features.audit.service import Audit
from holdfast.features.collections.vectors import VectorCollections
from holdfast.features.documents.service import DocumentService
from holdfast.features.documents.upload import PART_BYTES
from holdfast.features.intelligence.graph.vocabulary import checked_relation
from holdfast.features.intelligence.model import Ref, Relation
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.interchange import store
from holdfast.features.interchange.cases import bring_case, tie_case
from holdfast.features.interchange.collections import bring_record, bring_relation, bring_vector
from holdfast.features.interchange.export import Sink, write_workspace
from holdfast.features.interchange.formats.readers import is_readable, read
from holdfast.features.interchange.model import (
    Exported,
    ImportProblem,
    Item,
    KeptBytes,
    KeptCase,
    KeptCaseTies,
    KeptDecision,
    KeptDocument,
    KeptMemory,
    KeptMilestone,
    KeptRecord,
    KeptRelation,
    KeptVector,
    KeptVersion,
    Note,
    NoteLink,
    Report,
    SourceFile,
)
from holdfast.features.interchange.restore import Arriving, NotImported, Restore, attempt
from holdfast.features.memory import store as memories
from holdfast.features.memory.model import ENTITY, NewMemory
from holdfast.features.memory.writing import wording
from holdfast.features.memory.writing.contradictions import Contradictions
from holdfast.features.memory.writing.draft import Refusal, draft, entry_of, memory_of, slugs_for
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx

BATCH = 100
BATCH_BYTES = 16 * 1024 * 1024
"""Of documents and artifacts in one batch, after which it ends."""
BATCH_WORDS = 256 * 1024
"""Characters to read the words of in one batch: SQLite has one writer, and others wait meanwhile."""

Work = Callable[[Restore], None]


@dataclass(frozen=True, slots=True)
class _Step:
    file: str
    work: Work
    size: int = 0
    """Bytes that it holds in memory."""
    words: int = 0
    """Characters whose words are read while the store is held."""


class InterchangeService:
    """Brings knowledge in from files and writes it out to them."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        search: SearchEngine,
        events: EventBus,
        clock: Clock,
        intelligence: IntelligenceService,
        documents: DocumentService,
        contradictions: Contradictions,
        vectors: VectorCollections,
    ) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._search = search
        self._events = events
        self._clock = clock
        self._intelligence = intelligence
        self._documents = documents
        self._contradictions = contradictions
        self._vectors = vectors

    async def export(self, principal: Principal, workspace_id: str, sink: Sink, *, derived: bool = False) -> Exported:
        """Give every file of the workspace to the sink, from one snapshot; how many of each type there are.

        What was derived from repositories is left out unless asked for: they give it again."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> tuple[str, dict[str, int]]:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            return workspace.id, write_workspace(
                tx, workspace.id, sink, self._vectors.kept(tx, workspace.id), derived=derived
            )

        id, counts = await self._database.read(work)
        await self._database.write(lambda tx: self._record(tx, principal, id, "workspace.export", counts))
        return counts

    async def import_files(
        self, principal: Principal, workspace_id: str, files: Iterable[SourceFile], *, most: int | None = None
    ) -> Report:
        """Bring in what the files hold, `most` things of it at the most.

        A second run finds what the first one stored and goes on from there."""
        principal.require("inference")
        workspace = await self._workspaces.get(principal, workspace_id)
        total = Report()
        later: list[Item] = []
        arrived: list[str] = []
        items = read(_readable(files, total))
        chosen = items if most is None else _first(items, most)
        steps = _steps(chosen, total, later, self._vectors, self._search)
        async for batch in _batches(steps):
            arrived += await self._write(principal, workspace.id, batch, total)
        ties = iter([_Step(_file(item), _tie_work(item)) for item in later])
        async for batch in _batches(ties):
            await self._write(principal, workspace.id, batch, total)
        await self._contradictions.look_for(principal, workspace.id, arrived)
        return total

    async def _write(self, principal: Principal, workspace_id: str, batch: list[_Step], total: Report) -> list[str]:
        """The memories that came in with it."""

        def work(tx: Tx) -> tuple[Report, list[str]]:
            self._workspaces.check(tx, principal, workspace_id)
            # A fresh report each time: the store may run this again after a conflict.
            report = Report()
            restore = Restore(
                tx,
                principal,
                workspace_id,
                self._clock.now(),
                self._intelligence.relations.meant,
                self._documents,
                report,
                [],
            )
            for step in batch:
                attempt(report, step.file, lambda step=step: step.work(restore))  # type: ignore[misc]
            if restore.entries:
                self._search.put(tx, restore.entries)
            if report.created or report.updated:
                counts = {**report.created, **({"updated": report.updated} if report.updated else {})}
                self._record(tx, principal, workspace_id, "workspace.import", counts)
                payload = {"action": "import", **counts}
                self._events.publish(tx, "memory.changed", payload, workspace_id=workspace_id)
                for type in ("case", "record"):
                    if type in report.created:
                        told = {f"{type}s": report.created[type]}
                        self._events.publish(tx, f"{type}.import", told, workspace_id=workspace_id)
            return report, [entry.id for entry in restore.entries if entry.type == ENTITY]

        done, arrived = await self._database.write(work)
        for type, number in done.created.items():
            total.created[type] = total.created.get(type, 0) + number
        total.updated += done.updated
        total.unchanged += done.unchanged
        for problem in done.problems:
            total.problem(problem)
        return arrived

    def _record(self, tx: Tx, principal: Principal, workspace_id: str, action: str, counts: dict[str, int]) -> None:
        self._audit.record(
            tx,
            principal,
            action,
            resource="workspace",
            resource_id=workspace_id,
            workspace_id=workspace_id,
            detail=dict(counts),
        )


def _readable(files: Iterable[SourceFile], total: Report) -> Iterator[SourceFile]:
    for file in files:
        if is_readable(file.path):
            yield file
        else:
            total.ignored += 1


def _first(items: Iterable[Item], most: int) -> Iterator[Item]:
    for number, item in enumerate(items):
        if number == most:
            yield ImportProblem(
                _file(item), f"one import takes {most:,} things; this and what follows is left to another"
            )
            return
        yield item


def _steps(
    items: Iterable[Item], total: Report, later: list[Item], vectors: VectorCollections, search: SearchEngine
) -> Iterator[_Step]:
    """What to do, in order; ties wait until both their ends can be there, and an artifact for all its versions."""
    for artifact_id, group in groupby(_with_documents(items), _artifact_of):
        if artifact_id:
            versions = [item for item in group if isinstance(item, KeptVersion)]
            yield _artifact(versions, search)
            continue
        for item in group:
            if isinstance(item, _Step):
                yield item
            elif isinstance(item, ImportProblem):
                total.problem(item)
            elif isinstance(item, NoteLink | KeptRelation):
                later.append(item)
            elif isinstance(item, KeptVector):
                yield _Step(item.file, partial(bring_vector, vectors, item), words=len(item.vector.text))
            else:
                yield _Step(_file(item), _work(item), words=_words(item))
            if isinstance(item, KeptCase) and (item.case.parent or item.links):
                later.append(KeptCaseTies(item.file, item.case.id, item.case.parent, item.links))


def _artifact(versions: list[KeptVersion], search: SearchEngine) -> _Step:
    newest = max(versions, key=lambda each: each.version.version)
    kept = newest.artifact
    # Read here, where nobody waits for the store.
    passages = passages_of(search, kept.identifier, kept.title, kept.type, newest.content)
    size = sum(len(each.content) for each in versions)
    return _Step(versions[0].file, lambda restore: restore.artifact(versions, passages), size)


def _artifact_of(item: "Item | _Step") -> str:
    return item.artifact.id if isinstance(item, KeptVersion) else ""


def _with_documents(items: Iterable[Item]) -> Iterator["Item | _Step"]:
    """The items, with what is to do for each document and its bytes in their place."""
    arriving: Arriving | None = None
    parts = 0
    for item in items:
        if isinstance(item, KeptBytes) and arriving is not None:
            yield _Step(item.file, _bytes_work(arriving, parts, item.data), len(item.data))
            parts += -(-len(item.data) // PART_BYTES)
            continue
        if arriving is not None:
            yield _whole(arriving)
            arriving = None
        if isinstance(item, KeptDocument):
            arriving, parts = Arriving(item), 0
            yield _begun(arriving)
        else:
            yield item
    if arriving is not None:
        yield _whole(arriving)


def _bytes_work(arriving: Arriving, first_part: int, data: bytes) -> Work:
    return lambda restore: restore.document_bytes(arriving, first_part, data)


def _begun(arriving: Arriving) -> _Step:
    return _Step(arriving.kept.file, lambda restore: restore.document(arriving))


def _whole(arriving: Arriving) -> _Step:
    return _Step(arriving.kept.file, lambda restore: restore.document_whole(arriving))


def _work(item: Item) -> Work:
    match item:
        case KeptMemory():
            return lambda restore: restore.memory(item)
        case KeptDecision():
            return lambda restore: restore.decision(item)
        case KeptMilestone():
            return lambda restore: restore.milestone(item)
        case KeptCase():
            return lambda restore: bring_case(restore, item)
        case KeptRecord():
            return lambda restore: bring_record(restore, item)
        case Note():
            return lambda restore: _note(restore, item)
    raise TypeError(type(item).__name__)


def _words(item: Item) -> int:
    match item:
        case KeptMemory():
            return len(item.memory.content)
        case KeptCase():
            return len(item.case.body)
        case KeptRecord():
            return len(str(item.record.data))
        case Note():
            return len(item.content)
    return 0


def _tie_work(item: Item) -> Work:
    if isinstance(item, KeptRelation):
        return lambda restore: bring_relation(restore, item)
    if isinstance(item, KeptCaseTies):
        return lambda restore: tie_case(restore, item)
    assert isinstance(item, NoteLink)
    return lambda restore: _link(restore, item)


def _file(item: Item) -> str:
    return item.file


async def _batches(steps: Iterator[_Step]) -> AsyncIterator[list[_Step]]:
    """Some steps at a time, read off the event loop: a file may be large."""
    while batch := await asyncio.to_thread(_next, steps):
        yield batch


def _next(steps: Iterator[_Step]) -> list[_Step]:
    batch: list[_Step] = []
    size = words = 0
    for step in islice(steps, BATCH):
        batch.append(step)
        size, words = size + step.size, words + step.words
        if size >= BATCH_BYTES or words >= BATCH_WORDS:
            break
    return batch


def _note(restore: Restore, note: Note) -> None:
    """A text from elsewhere as a memory; the same text from the same title comes in once."""
    tx, workspace_id = restore.tx, restore.workspace_id
    new = NewMemory(note.content, note.category, note.title, note.tags, note.occurred_at, note.source)
    checked = draft(new)
    if isinstance(checked, Refusal):
        raise NotImported(checked.reason[:1].lower() + checked.reason[1:])
    origin = "hash:" + hashlib.sha256(f"{checked.title}\n{checked.content}".encode()).hexdigest()
    id = store.recalled(tx, workspace_id, ENTITY, origin)
    if id is None:
        same = memories.find_current(tx, workspace_id, checked.digest)
        id = same.id if same else None
    if id is not None:
        restore.report.unchanged += 1
    else:
        made = memory_of(restore.principal, workspace_id, new, checked, restore.now)
        if note.learned_at is not None:
            made = replace(
                made, learned_at=min(note.learned_at, restore.now), updated_at=min(note.learned_at, restore.now)
            )
        made = restore.credited(made, note.said_by, agent=note.said_by_agent)
        for slug in slugs_for(checked.title, checked.digest):
            made = replace(made, slug=slug)
            if memories.insert(tx, made):
                break
        id = made.id
        restore.entries.append(entry_of(made))
        restore.report.create(ENTITY)
    store.remember(tx, workspace_id, ENTITY, origin, id)
    for name in note.names:
        store.remember(tx, workspace_id, ENTITY, _named(name), id)


def _link(restore: Restore, link: NoteLink) -> None:
    ends = []
    for name in (link.start, link.end):
        id = store.recalled(restore.tx, restore.workspace_id, ENTITY, _named(name))
        if id is None:
            raise NotImported(f"it relates to {name[:80]!r}, which is not among what was imported")
        ends.append(Ref(ENTITY, id))
    if ends[0] == ends[1]:
        raise NotImported(f"it relates {link.start[:80]!r} to itself")
    words = "_".join("".join(c if c.isalnum() and c.isascii() else " " for c in link.relation.lower()).split())
    name = checked_relation(words[:64].strip("_") or "relates_to")
    relation = Relation(
        new_id("rel"), restore.workspace_id, ends[0], ends[1], name, "", restore.principal.actor, restore.now
    )
    restore.tie(relation)


def _named(name: str) -> str:
    return "name:" + " ".join(wording.clean(name[:1_000]).casefold().split())[:300]
