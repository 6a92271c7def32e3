"""Owns bringing a repository's items up to date from its host: whose token asks, what is new, and how it is kept."""

import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from holdfast.core.clock import Clock
from holdfast.core.credential import Credential
from holdfast.core.errors import HoldfastError, Unavailable
from holdfast.engines.code_hosts.github_history import GitHubHistory
from holdfast.engines.code_hosts.gitlab_history import GitLabHistory
from holdfast.engines.code_hosts.history import HostHistory, Token
from holdfast.engines.code_hosts.patience import PATIENCE, Patience
from holdfast.engines.fetch.network.guard import Guard
from holdfast.engines.fetch.network.url import parse_url
from holdfast.engines.jobs import JobRun
from holdfast.engines.search import SearchEngine
from holdfast.features.repositories import store
from holdfast.features.repositories.access import user_and_token
from holdfast.features.repositories.history.entries import entry_id
from holdfast.features.repositories.history.keeping import RepositoryGone
from holdfast.features.repositories.hosts import item_store
from holdfast.features.repositories.hosts.apis import api_of
from holdfast.features.repositories.hosts.item_entries import item_entries
from holdfast.features.repositories.model import ITEM_KINDS, Host, Item, ItemKind, Repository
from holdfast.features.secrets.service import Secrets
from holdfast.storage.database import Database, Tx

BATCH = 20
SECONDS = 600.0
"""Of reading in one sync: a push should not wait for hours behind somebody's old issues."""
# The host's clock and ours may differ by so much; what changed within is listed again, and seen to be known.
SKEW_MILLIS = 3_600_000
_NAMES: Mapping[Host, str] = {"github": "GitHub", "gitlab": "GitLab"}
_WORDS: Mapping[ItemKind, str] = {
    "pull_request": "pull requests",
    "issue": "issues",
    "release": "releases",
    "discussion": "discussions",
}


@dataclass(frozen=True, slots=True)
class OperatorAccess:
    """A host's API as the operator configured it; `setting` is where its token comes from."""

    url: str
    token: str | None = field(repr=False)
    setting: str


class MoreToRead(Unavailable):
    """There is more than one sync should take; nothing is wrong."""

    code = "more_to_read"

    def __init__(self, host: str) -> None:
        super().__init__(f"{host} has more to tell than one sync takes; the next one goes on from there.")


class HostItems:
    """Items of repositories whose host has an API that we have a token for; of others there are none."""

    def __init__(
        self,
        database: Database,
        secrets: Secrets,
        search: SearchEngine,
        clock: Clock,
        guard: Guard,
        accesses: Mapping[str, OperatorAccess],
        *,
        patience: Patience = PATIENCE,
        seconds: float = SECONDS,
    ) -> None:
        self._database = database
        self._secrets = secrets
        self._search = search
        self._clock = clock
        self._guard = guard
        self._accesses = accesses
        self._patience = patience
        self._seconds = seconds

    async def sync(self, run: JobRun, repository: Repository) -> int:
        """Read what changed at the host since the last time; how many items are new or different.

        Killed, cancelled or held up by a limit at any moment, the next run goes on from the last batch that was kept.
        """
        history = await self._history(repository)
        if history is None:
            return 0
        until = time.monotonic() + self._seconds
        async with aclosing(history):
            return sum([await self._read(run, repository, history, kind, until) for kind in ITEM_KINDS])

    async def _history(self, repository: Repository) -> HostHistory | None:
        base_url = self._base_url(repository)
        if base_url is None:
            return None
        token = await self._token(repository, base_url)
        if token is None:
            return None
        make = GitHubHistory if repository.host == "github" else GitLabHistory
        return make(self._guard, token, base_url=base_url, patience=self._patience)

    def _base_url(self, repository: Repository) -> str | None:
        """The API of the host that the repository is cloned from: a token for one must never reach another."""
        urls = {host: access.url for host, access in self._accesses.items()}
        return api_of(repository.location, repository.host, urls) if repository.full_name else None

    async def _token(self, repository: Repository, base_url: str) -> Token | None:
        name = repository.key_from
        if name is not None:
            place, workspace_id = parse_url(base_url).place, repository.workspace_id
            held = await self._database.read(lambda tx: self._secrets.reveal(tx, workspace_id, name, place))
            return Token(user_and_token(held)[1], f"the secret {name}")
        access = self._accesses.get(repository.host)
        if access is None or not access.token or access.url != base_url:
            return None
        own = Credential(access.token, parse_url(base_url).place)
        return Token(own, f"the token of {access.setting}")

    async def _read(
        self, run: JobRun, repository: Repository, history: HostHistory, kind: ItemKind, until: float
    ) -> int:
        began = self._clock.now()
        since = await self._database.glance(lambda tx: item_store.item_cursor(tx, repository.id, kind))
        batch: list[Item] = []
        seen = changed = 0

        async def known(number: str, updated_at: int) -> bool:
            kept = await self._database.glance(lambda tx: item_store.find_item(tx, repository.id, kind, number))
            return kept is not None and kept.updated_at == updated_at

        items = history.items(repository.full_name, kind, since, known=known)
        async with aclosing(items):
            try:
                async for found in items:
                    batch.append(found)
                    seen += 1
                    await run.progress(seen, None, f"{seen} {_WORDS[kind]} from {_NAMES[repository.host]}")
                    if len(batch) >= BATCH:
                        changed += await self._keep(run, repository, kind, batch)
                        batch = []
                    if time.monotonic() > until:
                        raise MoreToRead(_NAMES[repository.host])
            except HoldfastError:
                await self._keep(run, repository, kind, batch)
                raise
        # Other kinds fill the same list at GitHub: without moving on, they would be listed again for ever.
        return changed + await self._keep(run, repository, kind, batch, known_until=began - SKEW_MILLIS)

    async def _keep(
        self,
        run: JobRun,
        repository: Repository,
        kind: ItemKind,
        batch: Sequence[Item],
        *,
        known_until: int | None = None,
    ) -> int:
        def work(tx: Tx) -> int:
            if store.hold(tx, repository.id) is None:
                raise RepositoryGone
            different = [item for item in batch if item_store.find_item(tx, repository.id, kind, item.number) != item]
            self._put(tx, repository, kind, different)
            _count(tx, run, repository, len(different))
            moments = [item.updated_at for item in batch]
            cursor = max([*moments, *([] if known_until is None else [known_until])], default=None)
            last = item_store.item_cursor(tx, repository.id, kind)
            if cursor is not None and (last is None or cursor > last):
                item_store.set_item_cursor(tx, repository.id, kind, cursor)
            return len(different)

        return await run.write(work)

    def _put(self, tx: Tx, repository: Repository, kind: ItemKind, items: Sequence[Item]) -> None:
        if not items:
            return
        item_store.put_items(tx, repository.id, items)
        # One that has fewer passages now would leave its last ones behind.
        ids = [entry_id(repository.id, item.number) for item in items]
        self._search.remove_many(tx, repository.workspace_id, kind, ids)
        now = self._clock.now()
        self._search.put(tx, [entry for item in items for entry in item_entries(repository, item, now)])


def _count(tx: Tx, run: JobRun, repository: Repository, changed: int) -> None:
    """Add to the log of the sync that is running."""
    running = [sync for sync in store.syncs(tx, repository.id, limit=5) if sync.job_id == run.job.id] if changed else []
    for sync in running:
        store.count_sync(tx, sync.id, items_changed=changed)
