"""Owns how repositories and what was read from them are seen by other features."""

import re
from collections.abc import Sequence
from dataclasses import replace

from holdfast.features.repositories import store
from holdfast.features.repositories.history import store as history
from holdfast.features.repositories.history.entries import entry_id
from holdfast.features.repositories.model import COMMIT, FILE, ITEM_KINDS, REPOSITORY, TAG, Repository
from holdfast.features.repositories.overview import overview
from holdfast.registry.entities import Blocker, EntityType, Source
from holdfast.storage.database import Tx

_MOST_FAILED = 20
_SHA = re.compile(r"[0-9a-fA-F]{7,40}")


def _title(tx: Tx, workspace_id: str, slug: str) -> str | None:
    """People and agents call a repository by its slug, so what is said of one names that."""
    found = store.find_in(tx, workspace_id, slug)
    return found.name if found else None


def _recent(tx: Tx, workspace_id: str, limit: int) -> Sequence[Source]:
    rows = store.of_workspace(tx, workspace_id, limit)
    return [
        Source(
            REPOSITORY, row.slug, row.name, overview(tx, row), row.last_synced_at or row.created_at, row.state, row.id
        )
        for row in rows
    ]


def _blockers(tx: Tx, workspace_id: str) -> Sequence[Blocker]:
    """Repositories that cannot be read: what agents are told of them grows old."""
    return [
        Blocker(REPOSITORY, row.slug, row.name, _unread(row), row.last_synced_at or row.created_at)
        for row in store.of_workspace(tx, workspace_id, _MOST_FAILED)
        if row.state == "failed"
    ]


def _unread(repository: Repository) -> str:
    return f"Its last sync failed, so what is known of it grows old. {repository.reason or ''}".strip()


def _commit_title(tx: Tx, workspace_id: str, id: str) -> str | None:
    repository_id, _, sha = id.partition("/")
    repository = store.by_id(tx, repository_id) if sha else None
    if repository is None or repository.workspace_id != workspace_id:
        return None
    found = history.commits(tx, repository_id, [sha])
    return found[0].subject or sha[:12] if found else None


def _commit_id(tx: Tx, workspace_id: str, name: str) -> str | None:
    """By its hash, or the beginning of it where only one commit begins so; in whichever repository was synced last."""
    if _SHA.fullmatch(name) is None:
        return None
    found = [
        (commit.sha, entry_id(repository.id, commit.sha))
        for repository in store.of_workspace(tx, workspace_id)
        for commit in history.commits_by_prefix(tx, repository.id, name, 2)
    ]
    return found[0][1] if len({sha for sha, _ in found}) == 1 else None


def _part(name: str, *other_names: str) -> EntityType:
    return EntityType(name=name, searched="read", part_of=REPOSITORY, other_names=other_names)


ENTITIES = (
    EntityType(
        name=REPOSITORY,
        title=_title,
        recent=_recent,
        blockers=_blockers,
        searched=None,
        other_names=("repositories", "repository_chunk", "repo"),
    ),
    replace(_part(COMMIT), title=_commit_title, id_of=_commit_id),
    _part(FILE, "code"),
    _part(TAG),
    *(_part(kind, *(("pr",) if kind == "pull_request" else ())) for kind in ITEM_KINDS),
)
