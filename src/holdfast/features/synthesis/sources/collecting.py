"""Owns collecting: the walk over the commits, the host's items, and the files that are read; page by page."""

import asyncio
import heapq
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from holdfast.core.errors import NotFound
from holdfast.core.principal import Principal
from holdfast.engines.git.model import Commit, GitFailed, Tag
from holdfast.features.repositories.history import store as history_store
from holdfast.features.repositories.history.reading import LiveFiles
from holdfast.features.repositories.hosts import item_store
from holdfast.features.repositories.model import Item, ItemKind, KnownFile, Repository
from holdfast.features.synthesis import store
from holdfast.features.synthesis.findings.decisions import Told, told
from holdfast.features.synthesis.findings.milestones import Since, TagEnd, boundaries, changes_since, placed
from holdfast.features.synthesis.sources.adr import Adr, is_adr, parse_adr
from holdfast.features.synthesis.sources.codeowners import PLACES
from holdfast.features.synthesis.sources.components import Components, is_code, own
from holdfast.features.synthesis.sources.facts import Facts, facts_of, is_readme
from holdfast.features.synthesis.sources.history import History
from holdfast.features.synthesis.sources.manifests import is_manifest
from holdfast.features.synthesis.sources.outline import LANGUAGES, Outline, from_json, outline
from holdfast.storage.database import Database, Tx

PAGE_COMMITS = 500
PAGE_ITEMS = 100
MOST_TOLD = 200
MOST_RELEASES = 500
MOST_SOURCES = 4_000
"""Source files that are read; of larger repositories those that changed last."""
MOST_DOCUMENTS = 250
MOST_RECORDS = 300
KEPT_AT_ONCE = 100
MOST_OF_A_LINE = 1_000
SYMBOLS = 8_000

_DOCUMENT = re.compile(r"^(?:docs?/.+|[^/]+)\.(?:md|markdown|rst|adoc|txt)$", re.IGNORECASE)
_BUILD = re.compile(r"^(?:Makefile|GNUmakefile|makefile|(?:.+/)?Dockerfile[^/]*)$")
_SKIPPED = frozenset({"not_text", "too_large"})

Tell = Callable[[float, str], Awaitable[None]]
"""(share of the collecting that is done, what is being done)."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What the findings are made of."""

    facts: Facts
    records: Sequence[Adr]
    told: Sequence[Told]
    since: Mapping[str, Since]


class Collecting:
    """Reads what is kept of a repository, and its files through git itself."""

    def __init__(self, database: Database, files: LiveFiles) -> None:
        self._database = database
        self._files = files

    async def collect(
        self, principal: Principal, repository: Repository, kept_commits: Collection[str], tell: Tell
    ) -> Collected:
        """Everything there is to know; `kept_commits` are findings already."""
        known = await self._database.read(lambda tx: history_store.files(tx, repository.id))
        files = own(known)
        components = await asyncio.to_thread(Components, files)
        tags, on_branch = await self._tags(repository)
        ends = boundaries(tags, on_branch)
        brought = placed(ends, on_branch)
        history = await self._history(repository, files, components, ends, brought, kept_commits, tell)
        found, releases = await self._items(repository)
        await tell(0.5, "Reading files")
        texts = await self._texts(principal, repository, files)
        outlines = await self._outlines(principal, repository, files, history, tell)
        symbols = await self._database.read(lambda tx: history_store.largest_symbols(tx, repository.id, SYMBOLS))
        facts = await asyncio.to_thread(
            facts_of, repository, files, components, outlines, texts, symbols, history, tags, releases
        )
        records = await asyncio.to_thread(_records, texts)
        return Collected(facts, records, found, changes_since(ends, history.spans))

    async def _tags(self, repository: Repository) -> tuple[list[Tag], dict[str, Commit]]:
        """The tags, oldest first, and the commits on the branch of the seconds that tagged ones were made in."""

        def work(tx: Tx) -> tuple[list[Tag], list[Commit]]:
            tags = history_store.tags(tx, repository.id)
            tagged = history_store.commits(tx, repository.id, [tag.sha for tag in tags])
            return tags, history_store.commits_at(tx, repository.id, [commit.committed_at for commit in tagged])

        tags, commits = await self._database.read(work)
        return tags[::-1], {commit.sha: commit for commit in commits}

    async def _history(
        self,
        repository: Repository,
        files: Sequence[KnownFile],
        components: Components,
        ends: Sequence[TagEnd],
        brought: Mapping[str, int],
        kept: Collection[str],
        tell: Tell,
    ) -> History:
        paths = [file.path for file in files]
        history: History | None = None
        before: tuple[int, str] | None = None
        while True:
            page = await self._database.read(
                partial(history_store.page_commits, repository_id=repository.id, before=before, limit=PAGE_COMMITS)
            )
            if history is None:
                until = page[0].committed_at if page else 0
                moments = [end.at for end in ends]
                history = History(paths, components.of, moments, until=until, kept=kept, placed=brought)
            if not page:
                return history
            await asyncio.to_thread(_fold, history, page)
            before = (page[-1].committed_at, page[-1].sha)
            await tell(0.5 * min(1.0, history.commits / max(repository.commits, 1)), "Reading commits")

    async def _items(self, repository: Repository) -> tuple[list[Told], dict[str, Item]]:
        """The most telling pull requests, issues and discussions, and the releases by tag."""
        best: list[tuple[float, str, Told]] = []
        kinds: tuple[ItemKind, ...] = ("pull_request", "issue", "discussion")
        for kind in kinds:
            async for page in self._pages(repository, kind):
                best = heapq.nlargest(MOST_TOLD, [*best, *await asyncio.to_thread(_telling, page)])
        releases: dict[str, Item] = {}
        async for page in self._pages(repository, "release"):
            releases |= {item.number: item for item in page}
            if len(releases) >= MOST_RELEASES:
                break
        return [each for _, _, each in sorted(best, key=lambda each: (-each[0], each[1]))], releases

    async def _pages(self, repository: Repository, kind: ItemKind) -> AsyncGenerator[Sequence[Item], None]:
        before: tuple[int, str] | None = None
        while True:
            page = await self._database.read(
                partial(item_store.page_items, repository_id=repository.id, kind=kind, before=before, limit=PAGE_ITEMS)
            )
            yield page
            if len(page) < PAGE_ITEMS:
                return
            before = (page[-1].updated_at, page[-1].number)

    async def _texts(
        self, principal: Principal, repository: Repository, files: Sequence[KnownFile]
    ) -> dict[str, Sequence[str]]:
        """The documents, manifests and rules that are read as they are."""
        wanted: dict[str, None] = {}
        readable = [file for file in files if file.kind in ("code", "text")]
        nearest = sorted(readable, key=lambda file: (file.path.count("/"), file.path))
        documents = [file.path for file in nearest if is_readme(file.path) or _DOCUMENT.match(file.path)]
        records = [file.path for file in nearest if is_adr(file.path)]
        plain = [file.path for file in nearest if is_manifest(file.path) or _BUILD.match(file.path)]
        for path in (*documents[:MOST_DOCUMENTS], *records[:MOST_RECORDS], *plain[:80], *PLACES):
            wanted[path] = None
        there = {file.path for file in readable}
        texts = {}
        for path in wanted:
            lines = await self._read(principal, repository, path) if path in there else None
            if lines is not None:
                texts[path] = lines
        return texts

    async def _outlines(
        self, principal: Principal, repository: Repository, files: Sequence[KnownFile], history: History, tell: Tell
    ) -> dict[str, Outline]:
        """What each source file says of itself; only those whose content is new are read."""
        sources = [file for file in files if is_code(file) and file.language in LANGUAGES]
        sources.sort(key=lambda file: (-history.files[file.path].last_at, file.path))
        sources = sources[:MOST_SOURCES]
        known = await self._database.read(lambda tx: store.outlines(tx, repository.id))
        found = {file.path: known[file.path] for file in sources if known.get(file.path, ("",))[0] == file.blob}
        gone = sorted(known.keys() - {file.path for file in sources})
        await self._database.write(lambda tx: store.delete_outlines(tx, repository.id, gone))
        missing = [file for file in sources if file.path not in found]
        for start in range(0, len(missing), KEPT_AT_ONCE):
            some: dict[str, tuple[str, str]] = {}
            for file in missing[start : start + KEPT_AT_ONCE]:
                lines = await self._read(principal, repository, file.path)
                made = await asyncio.to_thread(outline, file.language, lines or ())
                some[file.path] = file.blob, made.to_json()
            await self._database.write(partial(store.put_outlines, repository_id=repository.id, outlines=some))
            found |= some
            await tell(0.6 + 0.4 * min(1.0, (start + KEPT_AT_ONCE) / len(missing)), "Reading files")
        return {path: from_json(text) for path, (_, text) in sorted(found.items())}

    async def _read(self, principal: Principal, repository: Repository, path: str) -> Sequence[str] | None:
        """The lines of a file as far as they are read in one look; None when it has none to read."""
        try:
            excerpt = await self._files.read(principal, repository.slug, path)
        except NotFound:
            return None
        except GitFailed as problem:
            if problem.code in _SKIPPED:
                return None
            raise
        return [line[:MOST_OF_A_LINE] for line in excerpt.text.split("\n")]


def _telling(items: Sequence[Item]) -> list[tuple[float, str, Told]]:
    return [(found.telling.score, found.key, found) for item in items if (found := told(item)) is not None]


def _records(texts: Mapping[str, Sequence[str]]) -> list[Adr]:
    return [made for path in sorted(texts) if is_adr(path) and (made := parse_adr(path, texts[path]))]


def _fold(history: History, commits: Sequence[Commit]) -> None:
    for commit in commits:
        history.add(commit)
