"""Owns how a repository stands in a sentence or two: when it was synced, how much there is, what happened last."""

from datetime import UTC, datetime

from holdfast.core.text.counting import many
from holdfast.features.repositories.history import store as history_store
from holdfast.features.repositories.model import Repository
from holdfast.storage.database import Tx

_NEWEST = 3


def overview(tx: Tx, repository: Repository) -> str:
    """Where a repository stands, the most useful first."""
    said = []
    if repository.state == "failed" and repository.reason:
        said.append(f"Not up to date: {repository.reason}")
    if repository.last_synced_at is None:
        said.append("Not read yet.")
    else:
        said.append(f"Synced {_day(repository.last_synced_at)}, {many(repository.commits, 'commit')}.")
    newest = history_store.page_commits(tx, repository.id, limit=_NEWEST)
    if newest:
        commits = [f"{it.subject or it.sha[:10]} ({it.author}, {_day(it.authored_at)})" for it in newest]
        said.append(f"Newest: {'; '.join(commits)}.")
    return " ".join(said)


def _day(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).date().isoformat()
