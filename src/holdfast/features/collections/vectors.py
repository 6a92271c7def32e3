"""Owns the rules of vectors in collections: given ones are compared as they are, texts are embedded by the engine."""

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from holdfast.core.clock import Clock
from holdfast.core.principal import Principal
from holdfast.core.text.fields import invalid
from holdfast.engines.search import Entry, SearchEngine
from holdfast.engines.search.model import Hit, Query
from holdfast.features.audit.service import Audit
from holdfast.features.collections import store
from holdfast.features.collections.model import (
    MAX_COLLECTION_FLOATS,
    MAX_DIMENSIONS,
    MAX_METADATA_BYTES,
    MAX_TEXT,
    PASSAGE,
    CollectionVector,
    FoundVector,
    VectorNotFound,
    checked_collection,
    checked_line,
    checked_object,
    wrong,
)
from holdfast.features.collections.service import ensure_collection, passages_of
from holdfast.features.documents.filters import Filter
from holdfast.features.workspaces.service import Workspaces
from holdfast.storage.database import Database, Tx

MAX_TOP = 100
_MAX_ID = 256
_OVERFETCH = 10
_PAGE = 200
_FILTER: TypeAdapter[Filter] = TypeAdapter(Filter)
_FILTER_TYPES = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "and", "or")


class VectorCollections:
    """Keeps and finds vectors. A collection holds texts, or given vectors of one dimension, as its first one says."""

    def __init__(
        self, database: Database, audit: Audit, workspaces: Workspaces, search: SearchEngine, clock: Clock
    ) -> None:
        self._database = database
        self._audit = audit
        self._workspaces = workspaces
        self._search = search
        self._clock = clock

    async def upsert(
        self,
        principal: Principal,
        workspace_id: str,
        id: str,
        *,
        vector: Sequence[float] | None = None,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        collection: str | None = None,
        session_id: str | None = None,
    ) -> None:
        """Keep a vector or a text under an id of the caller's, in place of what was there."""
        principal.require("inference")
        name, key = checked_collection(collection), _checked_id(id)
        said = checked_object(metadata or {}, "metadata", MAX_METADATA_BYTES)
        unit = _unit(vector) if vector is not None else None
        _check_either(vector, text)
        words = "" if text is None else checked_line(text, "text", MAX_TEXT)
        if text is not None and not words.strip():
            raise wrong("text", "write at least one word")

        new = CollectionVector(
            collection=name, id=key, metadata=said, author=principal.actor, updated_at=0, session_id=session_id
        )

        def work(tx: Tx) -> None:
            workspace = self._workspaces.check(tx, principal, workspace_id).id
            now = self._clock.now()
            ensure_collection(tx, workspace, name, now, principal.actor)
            wanted = 0 if unit is None else len(unit)
            _check_same(name, store.settle_dimensions(tx, workspace, name, wanted), wanted)
            if unit is None:
                self._search.put(tx, [_entry(workspace, replace(new, text=words, updated_at=now))])
            else:
                store.put_vector(tx, _row(workspace, replace(new, updated_at=now), unit.astype("<f2").tobytes()))
                _check_room(tx, workspace, name, wanted)
            self._note(tx, principal, workspace, "vector.upsert", name, key)

        await self._database.write(work)

    def kept(self, tx: Tx, workspace_id: str) -> Iterator[CollectionVector]:
        """Everything that a workspace's collections keep, by collection and id."""
        for name, dimensions in sorted(store.names(tx, workspace_id)):
            if dimensions:
                ids = sorted(store.vector_ids(tx, workspace_id, name))
                for start in range(0, len(ids), _PAGE):
                    some = ids[start : start + _PAGE]
                    found = store.kept_vectors(tx, workspace_id, name, some)
                    yield from (found[id] for id in some)
            else:
                yield from map(_told, self._search.entries(tx, workspace_id, passages_of(name)))

    def bring(self, tx: Tx, principal: Principal, workspace_id: str, kept: CollectionVector) -> bool | None:
        """Keep what was kept elsewhere: True where it is new, False where it is here already, None where it differs."""
        name, key = checked_collection(kept.collection), _checked_id(kept.id)
        said = checked_object(kept.metadata, "metadata", MAX_METADATA_BYTES)
        _check_either(kept.vector or None, kept.text or None)
        checked_line(kept.text, "text", MAX_TEXT)
        unit = _unit(_numbers(kept.vector)) if kept.vector else None
        wanted = 0 if unit is None else len(unit)
        ensure_collection(tx, workspace_id, name, self._clock.now(), principal.actor)
        _check_same(name, store.settle_dimensions(tx, workspace_id, name, wanted), wanted)
        if unit is None:
            found = next(map(_told, self._search.parts(tx, workspace_id, PASSAGE, _passage(name, key), limit=1)), None)
        else:
            found = store.kept_vectors(tx, workspace_id, name, [key]).get(key)
        if found is not None:
            same = (found.text, found.vector, dict(found.metadata)) == (kept.text, kept.vector, dict(said))
            return False if same else None
        if unit is None:
            self._search.put(tx, [_entry(workspace_id, kept)])
        else:
            store.put_vector(tx, _row(workspace_id, kept, base64.b64decode(kept.vector)))
            _check_room(tx, workspace_id, name, wanted)
        return True

    async def search(
        self,
        principal: Principal,
        workspace_id: str,
        *,
        vector: Sequence[float] | None = None,
        text: str | None = None,
        top_k: int = 10,
        filter: Mapping[str, Any] | None = None,
        collection: str | None = None,
    ) -> Sequence[FoundVector]:
        """The nearest of a collection, the nearest first."""
        principal.require_any("read", "inference")
        name = checked_collection(collection)
        _check_either(vector, text)
        if not 1 <= top_k <= MAX_TOP:
            raise wrong("top_k", f"a number from 1 to {MAX_TOP}")
        allows = _checked_filter(filter)
        unit = _unit(vector) if vector is not None else None
        workspace = await self._database.glance(lambda tx: self._workspaces.check(tx, principal, workspace_id).id)
        held = await self._database.glance(lambda tx: store.dimensions_of(tx, workspace, name))
        if held is None:
            return []
        _check_same(name, held, 0 if unit is None else len(unit))
        if unit is not None:
            return await self._database.read(lambda tx: _nearest(tx, workspace, name, unit, top_k, allows))
        wanted = top_k if filter is None else min(top_k * _OVERFETCH, 1_000)
        query = Query(
            workspace,
            text or "",
            frozenset({PASSAGE}),
            limit=wanted,
            collections=frozenset({passages_of(name)}),
            snippets=False,
        )
        found = await self._search.search(query)
        return [
            FoundVector(hit.id.partition("/")[2], round(hit.score, 4), hit.meta, hit.text)
            for hit in found
            if allows(hit.meta)
        ][:top_k]

    async def delete(self, principal: Principal, workspace_id: str, id: str, collection: str | None = None) -> None:
        """Forget one; VectorNotFound where there is none."""
        principal.require("inference")
        name, key = checked_collection(collection), _checked_id(id)

        def work(tx: Tx) -> None:
            workspace = self._workspaces.check(tx, principal, workspace_id).id
            if store.dimensions_of(tx, workspace, name) == 0:
                there = bool(self._search.parts(tx, workspace, PASSAGE, _passage(name, key), limit=1))
                self._search.remove(tx, workspace, PASSAGE, _passage(name, key))
            else:
                there = store.delete_vector(tx, workspace, name, key)
            if not there:
                raise VectorNotFound(key)
            self._note(tx, principal, workspace, "vector.delete", name, key)

        await self._database.write(work)

    def _note(self, tx: Tx, principal: Principal, workspace_id: str, action: str, name: str, id: str) -> None:
        self._audit.record(
            tx,
            principal,
            action,
            resource="vector",
            resource_id=id,
            workspace_id=workspace_id,
            detail={"collection": name},
        )


Allows = Callable[[Mapping[str, Any]], bool]
_Floats = np.ndarray[Any, np.dtype[np.float32]]


def _nearest(tx: Tx, workspace_id: str, name: str, unit: _Floats, top_k: int, allows: Allows) -> list[FoundVector]:
    rows = store.vectors(tx, workspace_id, name)
    kept = [(row, json.loads(row["metadata"])) for row in rows]
    kept = [(row, said) for row, said in kept if allows(said)]
    if not kept:
        return []
    held = np.frombuffer(b"".join(bytes(row["vector"]) for row, _ in kept), "<f2").astype(np.float32)
    scores = held.reshape(len(kept), len(unit)) @ unit
    best = sorted(range(len(kept)), key=lambda index: (-float(scores[index]), kept[index][0]["id"]))[:top_k]
    return [
        FoundVector(kept[index][0]["id"], round(max(-1.0, min(1.0, float(scores[index]))), 4), kept[index][1])
        for index in best
    ]


def _unit(vector: Sequence[float]) -> _Floats:
    if not 1 <= len(vector) <= MAX_DIMENSIONS:
        raise wrong("vector", f"1 to {MAX_DIMENSIONS:,} numbers")
    if not all(math.isfinite(number) and abs(number) < 1e18 for number in vector):
        raise wrong("vector", "every number must be finite")
    given = np.asarray(vector, np.float64)
    length = float(np.linalg.norm(given))
    if length < 1e-18:
        raise wrong("vector", "a vector of nothing but zeros points nowhere")
    return np.asarray(given / length, np.float32)


def _checked_id(id: str) -> str:
    key = checked_line(id.strip(), "id", _MAX_ID)
    if not key:
        raise wrong("id", "write at least one character")
    return key


def _check_either(vector: Sequence[float] | str | None, text: str | None) -> None:
    if (vector is None) == (text is None):
        raise wrong("vector", "give either vector or text")


def _check_same(name: str, held: int, wanted: int) -> None:
    if held == wanted:
        return
    if wanted == 0:
        raise wrong("text", f"the collection {name} holds given vectors of {held} numbers; use another for texts")
    if held == 0:
        raise wrong("vector", f"the collection {name} holds texts; give text, or use another for vectors")
    raise wrong("vector", f"the collection {name} holds vectors of {held} numbers; this has {wanted}")


def _check_room(tx: Tx, workspace_id: str, name: str, dimensions: int) -> None:
    most = MAX_COLLECTION_FLOATS // dimensions
    if store.count_vectors(tx, workspace_id, name) > most:
        raise wrong("collection", f"it holds {most:,} vectors of {dimensions} numbers, and no more; use another")


def _entry(workspace_id: str, kept: CollectionVector) -> Entry:
    return Entry(
        workspace_id=workspace_id,
        type=PASSAGE,
        id=_passage(kept.collection, kept.id),
        title="",
        text=kept.text,
        learned_at=kept.updated_at,
        source=kept.session_id or "",
        meta=kept.metadata,
        collection=passages_of(kept.collection),
    )


def _told(hit: Hit) -> CollectionVector:
    """A text as search keeps it, which does not know who wrote it."""
    name, _, key = hit.id.partition("/")
    return CollectionVector(
        collection=name,
        id=key,
        text=hit.text,
        metadata=hit.meta,
        updated_at=hit.learned_at,
        session_id=hit.source or None,
    )


def _row(workspace_id: str, kept: CollectionVector, halves: bytes) -> dict[str, Any]:
    return {
        "workspace_id": workspace_id,
        "collection": kept.collection,
        "id": kept.id,
        "vector": halves,
        "metadata": json.dumps(dict(kept.metadata), ensure_ascii=False),
        "author": kept.author,
        "updated_at": kept.updated_at,
        "session_id": kept.session_id,
    }


def _numbers(vector: str) -> list[float]:
    try:
        numbers: list[float] = np.frombuffer(base64.b64decode(vector, validate=True), "<f2").astype(float).tolist()
    except ValueError:
        raise wrong("vector", "its numbers are written as halves in base64") from None
    return numbers


def _passage(name: str, id: str) -> str:
    return f"{name}/{id}"


def _checked_filter(given: Mapping[str, Any] | None) -> Allows:
    """Whether metadata passes: `{"type": "eq", "key": …, "value": …}`, or plain `{"key": value}` for equal ones."""
    if given is None:
        return lambda metadata: True
    if given.get("type") in _FILTER_TYPES and ("filters" in given or "key" in given):
        try:
            return _FILTER.validate_python(dict(given)).allows
        except ValidationError as problem:
            raise invalid(problem, "The filter") from None
    return lambda metadata: all(metadata.get(key) == value for key, value in given.items())
