"""Owns the rules of records: who may write one, what it is tied to, which one is meant, and how they are asked."""

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast.core.clock import Clock
from holdfast.core.errors import NotFound
from holdfast.core.ids import is_id, new_id
from holdfast.core.paging import Page, id_in_cursor, page_of
from holdfast.core.principal import Principal
from holdfast.engines.events import EventBus
from holdfast.engines.search import Entry, SearchEngine
from holdfast.engines.search.model import Query
from holdfast.features.audit.service import Audit
from holdfast.features.collections import store
from holdfast.features.collections.model import (
    MAX_COLLECTIONS,
    MAX_DATA_BYTES,
    MAX_DERIVED,
    MAX_SOURCE,
    RECORD,
    CollectionFacts,
    GraphEdge,
    GraphRecord,
    NewRecord,
    Recognised,
    RecordNotFound,
    TooManyCollections,
    checked_collection,
    checked_line,
    checked_object,
    checked_type,
    folded,
    title_of,
    wrong,
)
from holdfast.features.collections.query.parser import parse_query
from holdfast.features.collections.query.running import MOST_SEEN, QueryAnswer, answer
from holdfast.features.intelligence.graph import relation_store
from holdfast.features.intelligence.graph.relations import Relations
from holdfast.features.intelligence.model import DuplicateRelation, NewRelation, Ref, Relation
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx

DERIVED = "derived_from"
MAX_PROPERTIES_BYTES = 16_000
_ALIKE = 0.85
"""Names that share less than this are different names."""
_MOST_CANDIDATES = 10
_EXAMPLES = 3


class GraphRecords:
    """Keeps records and their edges, which are relations like all others, and answers queries."""

    def __init__(
        self,
        database: Database,
        audit: Audit,
        workspaces: Workspaces,
        search: SearchEngine,
        events: EventBus,
        clock: Clock,
        relations: Relations,
    ) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._search = search
        self._events = events
        self._clock = clock
        self._relations = relations

    async def write(self, principal: Principal, workspace_id: str, new: NewRecord) -> tuple[GraphRecord, bool]:
        """Keep a record, or what is new about one whose id is in the data (null takes a field away); whether new."""
        principal.require("inference")
        type, collection = checked_type(new.type), checked_collection(new.collection)
        data = checked_object(new.data, "data", MAX_DATA_BYTES)
        source = checked_line(new.source, "source", MAX_SOURCE)
        if new.confidence is not None and not 0 <= new.confidence <= 1:
            raise wrong("confidence", "a number from 0 to 1")
        if len(new.derived_from) > MAX_DERIVED:
            raise wrong("derived_from", f"name at most {MAX_DERIVED}")
        if not data:
            raise wrong("data", "say at least one thing of the record")
        named = data.get("id")

        def work(tx: Tx) -> tuple[GraphRecord, bool]:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            now = self._clock.now()
            before = store.record(tx, workspace.id, named) if isinstance(named, str) and is_id("rec", named) else None
            if before is None and isinstance(named, str) and is_id("rec", named):
                raise RecordNotFound(named)
            self._ensure(tx, principal, workspace.id, collection)
            made = GraphRecord(
                id=new_id("rec"),
                workspace_id=workspace.id,
                collection=collection,
                type=type,
                title=title_of(type, data),
                data=data,
                confidence=new.confidence,
                source=source,
                session_id=new.session_id,
                author=principal.actor,
                created_at=now,
                updated_at=now,
            )
            if before is not None:
                made = _merged(before, made)
            store.put_record(tx, made)
            self._search.put(tx, [entry_of(made, principal.name)])
            for index, source_id in enumerate(new.derived_from):
                self._derive(tx, principal, made, source_id, f"derived_from[{index}]")
            self._note(tx, principal, "record.update" if before else "record.create", made)
            return made, before is None

        return await self._database.write(work)

    async def get(self, principal: Principal, workspace_id: str, record_id: str) -> GraphRecord:
        """One record."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> GraphRecord:
            found = store.record(tx, self._workspaces.check(tx, principal, workspace_id).id, record_id)
            if found is None:
                raise RecordNotFound(record_id)
            return found

        return await self._database.read(work)

    async def records(
        self,
        principal: Principal,
        workspace_id: str,
        *,
        type: str | None,
        collection: str | None,
        limit: int,
        cursor: str | None,
    ) -> Page[GraphRecord]:
        """A workspace's records, the first made first; of a type or a collection where one is named."""
        principal.require_any("read", "inference")
        after = id_in_cursor(cursor, "rec") if cursor else ""

        def work(tx: Tx) -> list[GraphRecord]:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            return store.page(tx, workspace.id, type, collection, after, limit + 1)

        return page_of(await self._database.read(work), limit, lambda each: (each.id,))

    async def find(
        self, principal: Principal, workspace_id: str, words: str, *, collection: str | None = None, limit: int = 30
    ) -> Sequence[GraphRecord]:
        """The records that words fit best, the best first; of one collection where one is named."""
        principal.require_any("read", "inference")
        within = {} if collection is None else {"collection": checked_collection(collection)}
        workspace = await self._database.glance(lambda tx: self._workspaces.check(tx, principal, workspace_id).id)
        query = Query(workspace, words, frozenset({RECORD}), limit=limit, meta=within, snippets=False)
        ids = [hit.id for hit in await self._search.search(query)]
        kept = await self._database.read(lambda tx: store.records(tx, workspace, ids))
        return [kept[id] for id in ids if id in kept]

    async def relate(
        self,
        principal: Principal,
        workspace_id: str,
        start: str,
        edge: str,
        end: str,
        *,
        collection: str | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> GraphEdge:
        """Tie two things by their ids or slugs: records, or whatever else the workspace knows. Told twice is once."""
        name = checked_collection(collection)
        said = checked_object(properties or {}, "properties", MAX_PROPERTIES_BYTES)
        called = "_".join(edge.strip().lower().replace("-", " ").replace("_", " ").split())

        def work(tx: Tx) -> GraphEdge:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            self._ensure(tx, principal, workspace.id, name)
            ends = [self._meant(tx, workspace.id, each, field) for each, field in ((start, "from"), (end, "to"))]
            tie, is_new = self._tie(tx, principal, workspace.id, NewRelation(ends[0], ends[1], called, ""))
            if is_new or said:
                store.put_edge(tx, tie.id, workspace.id, name, said)
            kept = store.properties_of(tx, [tie.id]).get(tie.id, {})
            return GraphEdge(ends[0].id, called, ends[1].id, kept, is_new)

        return await self._database.write(work)

    async def resolve(
        self,
        principal: Principal,
        workspace_id: str,
        type: str,
        *,
        name: str | None = None,
        email: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        collection: str | None = None,
    ) -> Sequence[Recognised]:
        """The records that may be meant, the likeliest first. An e-mail address says more than a name."""
        principal.require_any("read", "inference")
        checked_type(type)
        if not (name or email or attributes):
            raise wrong("name", "give a name, an email or attributes to recognise the record by")
        place = None if collection is None else checked_collection(collection)

        def work(tx: Tx) -> Sequence[Recognised]:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            exact = store.recognised(tx, workspace.id, type, place, folded(name), folded(email))
            # Where nothing fits to the letter, what is written a little differently may be meant.
            looked = exact or store.of_type(tx, workspace.id, type=type, collection=place, limit=MOST_SEEN)
            scored = [_recognised(record, folded(name), folded(email), attributes or {}) for record in looked]
            found = [each for each in scored if each is not None]
            return sorted(found, key=lambda each: (-each.score, each.record.id))[:_MOST_CANDIDATES]

        return await self._database.read(work)

    async def query(
        self,
        principal: Principal,
        workspace_id: str,
        text: str,
        *,
        collection: str | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> QueryAnswer:
        """What the graph has for a query in the language of `query/parser.py`."""
        principal.require_any("read", "inference")
        place = None if collection is None else checked_collection(collection)
        asked = parse_query(text, variables or {})

        def work(tx: Tx) -> QueryAnswer:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            return answer(tx, workspace.id, place, asked, self._relations.titles)

        return await self._database.read(work)

    async def discover(self, principal: Principal, workspace_id: str, collection: str | None = None) -> dict[str, Any]:
        """What kinds of records and edges there are, with the fields that records of each kind have."""
        principal.require_any("read", "inference")
        place = None if collection is None else checked_collection(collection)

        def work(tx: Tx) -> dict[str, Any]:
            workspace = self._workspaces.check(tx, principal, workspace_id)
            records = store.of_type(tx, workspace.id, type=None, collection=place, limit=MOST_SEEN)
            ids = [record.id for record in records]
            return {"record_types": _kinds(records), "edges": _edges(tx, workspace.id, ids)}

        return await self._database.read(work)

    async def collections(self, principal: Principal, workspace_id: str) -> Sequence[CollectionFacts]:
        """Every collection of a workspace and what it holds."""
        principal.require_any("read", "inference")

        def work(tx: Tx) -> Sequence[CollectionFacts]:
            workspace = self._workspaces.check(tx, principal, workspace_id).id
            tables = ("graph_record", "graph_edge", "collection_vector")
            records, edges, vectors = (store.counts(tx, workspace, table) for table in tables)
            return [
                CollectionFacts(
                    name,
                    records.get(name, 0),
                    edges.get(name, 0),
                    self._search.count(tx, workspace, passages_of(name)) if dimensions == 0 else vectors.get(name, 0),
                    dimensions or None,
                    dimensions == 0,
                )
                for name, dimensions in store.names(tx, workspace)
            ]

        return await self._database.read(work)

    def _ensure(self, tx: Tx, principal: Principal, workspace_id: str, name: str) -> None:
        ensure_collection(tx, workspace_id, name, self._clock.now(), principal.actor)

    def _derive(self, tx: Tx, principal: Principal, record: GraphRecord, source: str, field: str) -> None:
        origin = self._meant(tx, record.workspace_id, source, field)
        self._tie(tx, principal, record.workspace_id, NewRelation(Ref(RECORD, record.id), origin, DERIVED, ""))

    def _tie(self, tx: Tx, principal: Principal, workspace_id: str, new: NewRelation) -> tuple[Relation, bool]:
        try:
            return self._relations.add(tx, principal, workspace_id, new), True
        except DuplicateRelation as known:
            return known.relation, False

    def _meant(self, tx: Tx, workspace_id: str, name: str, field: str) -> Ref:
        try:
            return self._relations.find(tx, workspace_id, name)[0]
        except NotFound:
            raise wrong(field, f"nothing here has the id or slug {name[:80]!r}") from None

    def _note(self, tx: Tx, principal: Principal, action: str, record: GraphRecord) -> None:
        self._audit.record(
            tx,
            principal,
            action,
            resource=RECORD,
            resource_id=record.id,
            workspace_id=record.workspace_id,
            detail={"type": record.type, "collection": record.collection},
        )
        self._events.publish(tx, action, {"id": record.id, "type": record.type}, workspace_id=record.workspace_id)


def ensure_collection(tx: Tx, workspace_id: str, name: str, now: int, author: str) -> None:
    """Make a collection unless it is there; TooManyCollections where there are enough."""
    if store.count_collections(tx, workspace_id) >= MAX_COLLECTIONS and name not in dict(store.names(tx, workspace_id)):
        raise TooManyCollections
    store.ensure(tx, workspace_id, name, now, author)


def passages_of(name: str) -> str:
    """What search calls the texts of a collection."""
    return f"collection/{name}"


def _merged(before: GraphRecord, now: GraphRecord) -> GraphRecord:
    data = {**before.data, **now.data}
    data = {key: value for key, value in data.items() if value is not None and key != "id"}
    return replace(
        now,
        id=before.id,
        data=data,
        title=title_of(now.type, data),
        confidence=before.confidence if now.confidence is None else now.confidence,
        source=now.source or before.source,
        created_at=before.created_at,
    )


def entry_of(record: GraphRecord, author: str) -> Entry:
    """A record as search keeps it."""
    return Entry(
        workspace_id=record.workspace_id,
        type=RECORD,
        id=record.id,
        title=record.title,
        text=record.text,
        learned_at=record.updated_at,
        author=author,
        source=record.session_id or "",
        meta={"record_type": record.type, "collection": record.collection},
    )


def _recognised(record: GraphRecord, name: str, email: str, attributes: Mapping[str, Any]) -> Recognised | None:
    """How sure it is that this record is meant; None where nothing speaks for it, or its e-mail address against it."""
    has_name, has_email = folded(record.data.get("name")), folded(record.data.get("email"))
    matched: list[str] = []
    score = 0.0
    if email and has_email:
        if email != has_email:
            return None
        matched.append("email")
        score = 1.0
    if name and has_name:
        alike = 1.0 if name == has_name else difflib.SequenceMatcher(None, name, has_name, autojunk=False).ratio()
        if alike >= _ALIKE:
            matched.append("name")
            score = max(score, 0.9 * alike)
    same = [key for key, value in attributes.items() if value is not None and record.data.get(key) == value]
    if attributes and same:
        matched += [f"attributes.{key}" for key in same]
        score = (
            max(score, 0.7 * len(same) / len(attributes))
            if matched[0] not in ("email", "name")
            else min(1.0, score + 0.05 * len(same))
        )
    return Recognised(record, round(score, 3), matched) if matched else None


def _kinds(records: Sequence[GraphRecord]) -> list[dict[str, Any]]:
    kinds: dict[str, list[GraphRecord]] = {}
    for record in records:
        kinds.setdefault(record.type, []).append(record)
    return [
        {
            "type": type,
            "count": len(found),
            "fields": dict(Counter(key for record in found for key in record.data).most_common(50)),
            "collections": sorted({record.collection for record in found}),
            "examples": [record.title for record in found[:_EXAMPLES]],
        }
        for type, found in sorted(kinds.items())
    ]


def _edges(tx: Tx, workspace_id: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    ties = relation_store.of(tx, workspace_id, ids, MOST_SEEN) if ids else []
    types = {id: record.type for id, record in store.records(tx, workspace_id, list(ids)).items()}
    counted = Counter(
        (types.get(tie.start.id, tie.start.type), tie.relation, types.get(tie.end.id, tie.end.type)) for tie in ties
    )
    return [
        {"from": start, "edge": edge, "to": end, "count": count}
        for (start, edge, end), count in sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
