"""Owns looking sources up where they are: the commit and the item in the store, the lines in the file at the head."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import get_args

from holdfast.core.errors import HoldfastError
from holdfast.core.principal import Principal
from holdfast.features.ask.sources import Evidence, commit_evidence, file_evidence, item_evidence, tag_evidence
from holdfast.features.repositories.history import store as history_store
from holdfast.features.repositories.history.reading import LiveFiles
from holdfast.features.repositories.hosts import item_store
from holdfast.features.repositories.model import COMMIT, FILE, TAG, ItemKind
from holdfast.storage.database import Database, Tx

AT_ONCE = 4
READ_SECONDS = 15.0
_ITEMS: tuple[ItemKind, ...] = get_args(ItemKind)
_log = logging.getLogger(__name__)


class Confirmation:
    """Tells which sources are really there, and what they really say."""

    def __init__(self, database: Database, files: LiveFiles) -> None:
        self._database = database
        self._files = files
        self._room = asyncio.Semaphore(AT_ONCE)

    async def confirmed(self, principal: Principal, wanted: Mapping[int, Evidence]) -> dict[int, Evidence]:
        """Those that exist, with their content as it is; what was just read in the repository is not read again."""
        read = {number: each for number, each in wanted.items() if each.is_read}
        others = {number: each for number, each in wanted.items() if not each.is_read}
        kept = {number: each for number, each in others.items() if each.kind != FILE or not each.start_line}
        files = {number: each for number, each in others.items() if number not in kept}
        if kept:
            read |= await self._database.read(lambda tx: _looked_up(tx, kept))
        found = await asyncio.gather(*(self._lines(principal, each) for each in files.values()))
        read |= {number: each for number, each in zip(files, found, strict=True) if each is not None}
        return {number: read[number] for number in wanted if number in read}

    async def unknown(self, repositories: Sequence[str], names: Sequence[str]) -> frozenset[str]:
        """Which commits (by hash) and paths no repository of these ids has."""
        if not names:
            return frozenset()
        return await self._database.read(
            lambda tx: frozenset(name for name in names if not any(_has(tx, id, name) for id in repositories))
        )

    async def _lines(self, principal: Principal, evidence: Evidence) -> Evidence | None:
        slug, start, end = evidence.repository.slug, evidence.start_line, evidence.end_line
        try:
            async with self._room, asyncio.timeout(READ_SECONDS):
                excerpt = await self._files.read(principal, slug, evidence.key, start, end)
        except (HoldfastError, TimeoutError) as problem:
            _log.info("A source of an answer is not there: %s: %s", evidence.address, problem or "it took too long")
            return None
        if excerpt.total_lines < end or excerpt.start_line != start:
            return None
        there = file_evidence(evidence.repository, evidence.key, excerpt.text, start, end, is_read=True)
        return replace(
            there,
            similarity=evidence.similarity,
            exact=evidence.exact,
            line=evidence.line,
            heading=evidence.heading,
        )


def _looked_up(tx: Tx, wanted: Mapping[int, Evidence]) -> dict[int, Evidence]:
    found: dict[int, Evidence] = {}
    for number, evidence in wanted.items():
        there = _stored(tx, evidence)
        if there is not None:
            found[number] = replace(
                there, similarity=evidence.similarity, exact=evidence.exact, line=evidence.line, seen=evidence.seen
            )
    return found


def _stored(tx: Tx, evidence: Evidence) -> Evidence | None:
    repository, key = evidence.repository, evidence.key
    if evidence.kind == FILE:
        files = history_store.files_named(tx, repository.id, key)
        return replace(evidence, is_read=True) if any(file.path == key for file in files) else None
    if evidence.kind == COMMIT:
        commits = history_store.commits(tx, repository.id, [key])
        return commit_evidence(repository, commits[0]) if commits else None
    if evidence.kind == TAG:
        tags = [tag for tag in history_store.tags(tx, repository.id) if tag.name == key]
        return tag_evidence(repository, tags[0]) if tags else None
    for kind in _ITEMS:
        if kind == evidence.kind:
            item = item_store.find_item(tx, repository.id, kind, key)
            return item_evidence(repository, item) if item else None
    return None


def _has(tx: Tx, repository_id: str, name: str) -> bool:
    if "." in name:
        return bool(history_store.files_named(tx, repository_id, name, 1))
    return bool(history_store.commits_by_prefix(tx, repository_id, name, 1))
