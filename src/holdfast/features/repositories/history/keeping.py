"""Owns writing down what git gives, rows and search entries together: after any commit the two agree."""

from collections.abc import Sequence
from typing import Any

from holdfast.core.clock import Clock
from holdfast.engines.git.model import Commit, File, Tag
from holdfast.engines.search import SearchEngine
from holdfast.features.repositories import store
from holdfast.features.repositories.history import store as history_store
from holdfast.features.repositories.history.entries import commit_entry, entry_id, file_entries, tag_entry
from holdfast.features.repositories.hosts import item_store
from holdfast.features.repositories.model import COMMIT, FILE, TAG, Repository
from holdfast.storage.database import Tx

KEYSTONE_FOLDER = ".keystone/"


class RepositoryGone(Exception):
    """Removed while it was being read; there is nothing left to do."""


class Keeping:
    """Writes parts of one repository, each in the caller's transaction, and logs what came and went."""

    def __init__(self, search: SearchEngine, clock: Clock, repository_id: str, sync_id: str) -> None:
        self._search = search
        self._clock = clock
        self._id = repository_id
        self._sync_id = sync_id

    def add_commits(self, tx: Tx, commits: Sequence[Commit]) -> int:
        """Keep commits; those that are known stay as they are. How many were new."""
        repository = self.hold(tx)
        known = history_store.known(tx, self._id, [commit.sha for commit in commits])
        new = [commit for commit in commits if commit.sha not in known]
        if new:
            now = self._clock.now()
            history_store.put_commits(tx, self._id, new)
            self._search.put(tx, [commit_entry(repository, commit, now) for commit in new])
            store.count_sync(tx, self._sync_id, commits_added=len(new))
        return len(new)

    def remove_commits(self, tx: Tx, shas: Sequence[str]) -> None:
        """Forget commits that the branch no longer has."""
        repository = self.hold(tx)
        history_store.delete_commits(tx, self._id, shas)
        self._search.remove_many(tx, repository.workspace_id, COMMIT, self._entry_ids(shas))
        store.count_sync(tx, self._sync_id, commits_removed=len(shas))

    def put_files(self, tx: Tx, files: Sequence[File]) -> None:
        """Keep files as they are now."""
        repository = self.hold(tx)
        now = self._clock.now()
        self._search.remove_many(tx, repository.workspace_id, FILE, self._entry_ids([file.path for file in files]))
        history_store.put_files(tx, self._id, files)
        self._search.put(tx, [entry for file in files for entry in file_entries(repository, file, now)])
        store.count_sync(tx, self._sync_id, files_changed=len(files))

    def remove_files(self, tx: Tx, paths: Sequence[str]) -> None:
        """Forget files that the head no longer has."""
        repository = self.hold(tx)
        self._search.remove_many(tx, repository.workspace_id, FILE, self._entry_ids(paths))
        history_store.delete_files(tx, self._id, paths)
        store.count_sync(tx, self._sync_id, files_removed=len(paths))

    def put_tags(self, tx: Tx, tags: Sequence[Tag]) -> bool:
        """Make the tags those given; whether any came, went or moved."""
        repository = self.hold(tx)
        before = {tag.name: tag for tag in history_store.tags(tx, self._id)}
        now = {tag.name: tag for tag in tags}
        if before == now:
            return False
        gone = [name for name in before if name not in now]
        changed = [tag for tag in tags if before.get(tag.name) != tag]
        moment = self._clock.now()
        history_store.put_tags(tx, self._id, tags)
        self._search.remove_many(tx, repository.workspace_id, TAG, self._entry_ids(gone))
        self._search.put(tx, [tag_entry(repository, tag, moment) for tag in changed])
        return True

    def counts(self, tx: Tx) -> dict[str, Any]:
        """How much is kept now, for the repository's row."""
        repository = self.hold(tx)
        return {
            "commits": history_store.count_commits(tx, self._id),
            "files": history_store.count_files(tx, self._id),
            "items": item_store.count_items(tx, self._id),
            "keystone_files": history_store.count_below(tx, self._id, KEYSTONE_FOLDER),
            "entries": self._search.count(tx, repository.workspace_id, self._id),
        }

    def hold(self, tx: Tx) -> Repository:
        """The repository, which nobody removes before this transaction ends."""
        found = store.hold(tx, self._id)
        if found is None:
            raise RepositoryGone
        return found

    def _entry_ids(self, names: Sequence[str]) -> list[str]:
        return [entry_id(self._id, name) for name in names]
