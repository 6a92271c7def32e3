"""Owns looks at a repository's files and commits as they were at its last sync, for whoever may see it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from holdfast.core.errors import Conflict, NotFound
from holdfast.core.principal import Principal
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.git.model import BlameLine, Commit, Excerpt, GitFailed, ShownCommit, TreeEntry
from holdfast.engines.git.transport.address import Location
from holdfast.features.repositories.access import RepositoryTokens
from holdfast.features.repositories.history import store as history_store
from holdfast.features.repositories.model import Repository
from holdfast.features.repositories.service import Repositories
from holdfast.storage.database import Database, Tx

T = TypeVar("T")


class NotReadYet(Conflict):
    """The first sync has not come to its end."""

    code = "repository_not_read_yet"

    def __init__(self, slug: str) -> None:
        super().__init__(
            f"The repository {slug!r} has not been read yet; `holdfast repos status {slug}` tells how far."
        )


class LiveFiles:
    """Trees, files, logs, blame and patches, read from git itself at the head that was synced last."""

    def __init__(
        self, database: Database, repositories: Repositories, git: GitEngine, access: RepositoryTokens
    ) -> None:
        self._database = database
        self._repositories = repositories
        self._git = git
        self.access = access

    async def tree(
        self, principal: Principal, slug: str, path: str = "", *, recursive: bool = False, limit: int = 500
    ) -> Sequence[TreeEntry]:
        """The names in a directory."""
        repository = await self._repositories.get(principal, slug)
        if repository.ingested and not repository.head and not path.strip("/"):
            return []
        return await self._look(
            repository,
            lambda at: self._git.tree(
                repository.id, at, repository.head, path.strip("/"), recursive=recursive, limit=limit
            ),
        )

    async def read(
        self, principal: Principal, slug: str, path: str, start_line: int = 1, end_line: int | None = None
    ) -> Excerpt:
        """Lines of a file."""
        repository = await self._repositories.get(principal, slug)
        return await self._look(
            repository,
            lambda at: self._git.read(repository.id, at, repository.head, path.strip("/"), start_line, end_line),
        )

    async def log(self, principal: Principal, slug: str, path: str = "", *, limit: int = 20) -> Sequence[Commit]:
        """The commits that changed a path, newest first, through renames; of the whole repository without a path."""
        repository = await self._repositories.get(principal, slug)
        if not path.strip("/"):
            return await self._database.read(lambda tx: history_store.page_commits(tx, repository.id, limit=limit))
        return await self._look(
            repository, lambda at: self._git.log(repository.id, at, repository.head, path.strip("/"), limit)
        )

    async def blame(
        self, principal: Principal, slug: str, path: str, start_line: int, end_line: int
    ) -> Sequence[BlameLine]:
        """Who last changed these lines."""
        repository = await self._repositories.get(principal, slug)
        return await self._look(
            repository,
            lambda at: self._git.blame(repository.id, at, repository.head, path.strip("/"), start_line, end_line),
        )

    async def introduced(self, principal: Principal, slug: str, name: str) -> Commit | None:
        """The first commit that has a name in one of its files."""
        repository = await self._repositories.get(principal, slug)
        return await self._look(
            repository, lambda at: self._git.introduced(repository.id, at, repository.head, name.strip())
        )

    async def show(self, principal: Principal, slug: str, sha_prefix: str) -> ShownCommit:
        """A commit of the branch that is followed, with its patch."""

        def work(tx: Tx) -> tuple[Repository, list[Commit]]:
            repository = self._repositories.find(tx, principal, slug)
            return repository, history_store.commits_by_prefix(tx, repository.id, sha_prefix, 2)

        principal.require_any("read", "inference")
        repository, found = await self._database.read(work)
        if len(found) != 1:
            raise NotFound("commit", sha_prefix[:64])
        return await self._look(repository, lambda at: self._git.show(repository.id, at, found[0].sha))

    async def _look(self, repository: Repository, look: Callable[[Location], Awaitable[T]]) -> T:
        """Look; where another replica cloned it, or cloned it anew, the mirror here is brought up to date first."""
        if not repository.ingested:
            raise NotReadYet(repository.slug)
        if not repository.head:
            raise NotFound("path", repository.slug)
        location, credentials = await self.access.of(repository)
        try:
            return await look(location)
        except (GitFailed, NotFound) as problem:
            if location.is_local or not _lacks_the_head(problem):
                raise
        await self._git.fetch(repository.id, location, branch=repository.branch, credentials=credentials)
        return await look(location)


def _lacks_the_head(problem: GitFailed | NotFound) -> bool:
    """Whether the mirror is missing or older than what was synced."""
    if isinstance(problem, GitFailed):
        return problem.code == "not_a_repository"
    return problem.kind == "commit"
