"""Owns what a repository is here, what is kept of it, how far its syncs are, and what can be wrong with one."""

from dataclasses import dataclass, field
from typing import Literal

from holdfast.core.errors import Conflict, NotFound
from holdfast.engines.code_hosts.history import HostItem, HostItemKind, HostRemark

State = Literal["queued", "syncing", "ready", "failed"]
Trigger = Literal["add", "manual", "webhook", "poll"]
SyncStatus = Literal["RUNNING", "COMPLETED", "FAILED", "CANCELLED"]
SynthesisStatus = Literal["pending", "running", "completed", "failed"]
Host = Literal["", "github", "gitlab"]
# Kept just as the host's reader gives them.
Item = HostItem
Remark = HostRemark
ItemKind = HostItemKind

REPOSITORY = "repository"
SYNC_KIND = "repository.sync"
SYNTHESIS_KIND = "repository.synthesis"
POLL_KIND = "repository.poll"

COMMIT, FILE, TAG = "commit", "file", "tag"
ITEM_KINDS: tuple[ItemKind, ...] = ("pull_request", "issue", "release", "discussion")
ENTRY_TYPES = (COMMIT, FILE, TAG, *ITEM_KINDS)
"""What search calls the entries of repositories; each entry's `collection` is the repository's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A repository of a workspace; its slug is its name in the whole organization."""

    id: str
    organization_id: str
    project_id: str
    workspace_id: str
    slug: str
    name: str
    location: str
    """Where it is cloned from: an absolute path on the server's machine or a URL, never with credentials."""
    is_local: bool
    host: Host = ""
    full_name: str = ""
    """`owner/name` at its host; empty for one that has none."""
    key_from: str | None = None
    """The workspace secret that holds the token for its host."""
    webhook_secret: str | None = None
    """The workspace secret that its webhooks are signed with."""
    branch: str = ""
    """The branch that was asked for; empty for the default one."""
    head: str = ""
    """The commit that the last completed sync saw."""
    state: State = "queued"
    reason: str | None = None
    job_id: str | None = None
    ingested: bool = False
    """Whether a sync has completed."""
    last_synced_at: int | None = None
    synthesis_status: SynthesisStatus = "pending"
    synthesis_progress: int = 0
    synthesised_at: int | None = None
    synthesised_head: str = ""
    keystone_files: int = 0
    """Files below `.keystone/` at the head."""
    commits: int = 0
    files: int = 0
    items: int = 0
    entries: int = 0
    """Entries in the search index."""
    created_by: str
    created_by_name: str
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class NewRepository:
    """What somebody asks to have remembered."""

    location: str
    slug: str | None = None
    name: str | None = None
    branch: str = ""
    key_from: str | None = None
    host: Host | None = None
    """Which API speaks for it; guessed from the location when None."""


@dataclass(frozen=True, slots=True)
class Sync:
    """One attempt to bring a repository up to date, as it is logged."""

    id: str
    repository_id: str
    job_id: str
    trigger: Trigger
    status: SyncStatus
    started_at: int
    finished_at: int | None
    commits_added: int = 0
    commits_removed: int = 0
    files_changed: int = 0
    files_removed: int = 0
    items_changed: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class FoundSymbol:
    """A definition, with where it is."""

    repository_id: str
    name: str
    kind: str
    container: str
    path: str
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class KnownFile:
    """What is kept of a file at the head."""

    path: str
    blob: str
    kind: str
    language: str
    size: int
    lines: int
    passages: int


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The memory score and what it is made of."""

    ingestion: int
    synthesis: int
    coverage: int
    freshness: int
    keystone_folder: int

    @property
    def total(self) -> int:
        return self.ingestion + self.synthesis + self.coverage + self.freshness + self.keystone_folder


@dataclass(frozen=True, slots=True)
class Match:
    """A passage of a repository that has to do with a query. `similarity` is 0–1; 0.3 separates."""

    repository: Repository
    type: str
    source_id: str
    """`commit:<sha>`, `file:<path>#L1-L20`, `pr:12`, `issue:7`, `release:v1`, `discussion:3`, `tag:v1`."""
    title: str
    content: str
    similarity: float
    occurred_at: int | None
    author: str = ""
    path: str = ""
    start_line: int | None = None
    end_line: int | None = None
    commit: str = ""
    number: str = ""
    url: str = ""
    exact: bool = False
    """Whether it is what the query names: a symbol, path, commit or number."""
    facts: dict[str, object] = field(default_factory=dict)


class RepositoryNotFound(NotFound):
    """No such repository for this caller."""

    def __init__(self, slug: str) -> None:
        super().__init__("repository", slug)
        self.slug = slug


class SlugTaken(Conflict):
    """Another repository of the organization is called so."""

    code = "slug_taken"

    def __init__(self, slug: str) -> None:
        super().__init__(f"A repository of this organization is already called {slug!r}; choose another slug.")


class AlreadyAdded(Conflict):
    """The workspace remembers this repository and branch; `slug` is what it is called there."""

    code = "already_added"

    def __init__(self, slug: str) -> None:
        super().__init__(
            f"This repository is already here as {slug!r}; bring it up to date with a sync, or give another branch, "
            "or a slug of its own to keep it twice."
        )
        self.slug = slug
