"""Owns the look-up of what a query names: commits by hash, items by number, files by path, symbols and tags by name."""

from collections.abc import Iterator, Sequence

from holdfast.engines.search import Hit, SearchEngine
from holdfast.features.repositories.finding.matches import file_source, match_of
from holdfast.features.repositories.finding.names import ItemNumber, Name, NamedSymbol, Path, QueryNames
from holdfast.features.repositories.history import store as history_store
from holdfast.features.repositories.history.entries import commit_entry, entry_id, tag_entry
from holdfast.features.repositories.hosts import item_store
from holdfast.features.repositories.hosts.item_entries import item_entries
from holdfast.features.repositories.model import FILE, FoundSymbol, KnownFile, Match, Repository
from holdfast.storage.database import Tx

MOST_OF_KIND = 5
MOST_AMONG_OTHERS = 2
"""Definitions of a symbol that is named among other words."""
MOST_DEFINITIONS = 200
"""Looked at for one name; `__init__` has thousands."""
NAMED = 0.9
"""The similarity of what is named among other words; of what is the whole query it is 1."""
_TEST_PARTS = ("test", "tests", "spec", "specs", "fixtures", "examples", "vendor", "node_modules")


def matches(tx: Tx, search: SearchEngine, repository: Repository, names: QueryNames) -> list[Match]:
    """What a repository has under the names, in the order of how surely each is meant."""
    looked_up = Exact(tx, search, repository)
    found = [
        *looked_up.commits(names),
        *looked_up.items(names),
        *looked_up.files(names),
        *looked_up.symbols(names),
        *looked_up.shortened(names),
        *looked_up.tags(names),
    ]
    return sorted(found, key=lambda match: -match.similarity)


class Exact:
    """One repository's look-up, within a transaction."""

    def __init__(self, tx: Tx, search: SearchEngine, repository: Repository) -> None:
        self._tx = tx
        self._search = search
        self._repository = repository

    def commits(self, names: QueryNames) -> Iterator[Match]:
        """The commits whose hash begins so."""
        for name in names.hashes:
            for commit in history_store.commits_by_prefix(self._tx, self._repository.id, name.text, MOST_OF_KIND):
                yield match_of(
                    self._repository, commit_entry(self._repository, commit, 0), _similarity(name), exact=True
                )

    def items(self, names: QueryNames) -> Iterator[Match]:
        """The items of a number: of the kind that was said, or else of any."""
        for name in names.numbers:
            found = item_store.numbered(self._tx, self._repository.id, name.text)
            said = [item for item in found if item.kind in name.kinds]
            for item in said or found:
                for entry in item_entries(self._repository, item, 0):
                    yield match_of(self._repository, entry, _similarity(name), exact=True)
                    break

    def files(self, names: QueryNames) -> Iterator[Match]:
        """The files of a path or the end of one, each by the passage that has the line."""
        for name in names.paths:
            path = self._within(name)
            found = history_store.files_named(self._tx, self._repository.id, path, MOST_OF_KIND)
            if not found and name.text.isupper():
                # README and CHANGELOG are files, whatever constants are called so too.
                found = history_store.files_stemmed(self._tx, self._repository.id, path, MOST_OF_KIND)
            yield from self._shown(found, name)

    def shortened(self, names: QueryNames) -> Iterator[Match]:
        """Files without their extension, modules as code names them, and what is in a directory."""
        for name in names.paths:
            if not name.whole or name.text.isupper():
                continue
            path = self._within(name)
            spelled = path if "/" in path else path.replace(".", "/")
            found = history_store.files_stemmed(self._tx, self._repository.id, spelled, MOST_OF_KIND)
            if not found and "/" in spelled:
                found = history_store.files_below(self._tx, self._repository.id, spelled, MOST_OF_KIND)
            yield from self._shown(found, name)

    def _within(self, name: Path) -> str:
        """The path in the repository, where the whole one on the server's machine is named."""
        return name.text.removeprefix(f"{self._repository.location.strip('/')}/")

    def _shown(self, files: Sequence[KnownFile], name: Path) -> Iterator[Match]:
        for file in files:
            yield self._passage(file.path, name.line or 1, _similarity(name)) or self._bare(file, name)

    def symbols(self, names: QueryNames) -> Iterator[Match]:
        """The passages that define a symbol."""
        for name in names.symbols:
            for symbol in self._definitions(name)[: MOST_OF_KIND if name.whole else MOST_AMONG_OTHERS]:
                match = self._passage(symbol.path, symbol.start_line, _similarity(name))
                if match is not None:
                    facts = {"symbol": symbol.name, "kind": symbol.kind, "line": symbol.start_line}
                    match.facts.update(facts | ({"container": symbol.container} if symbol.container else {}))
                    yield match

    def tags(self, names: QueryNames) -> Iterator[Match]:
        """The tags and releases of a name, with or without a leading `v`."""
        wanted = {spelling: name for name in names.tags for spelling in _tag_spellings(name.text)}
        if not wanted:
            return
        for release in wanted:
            item = item_store.find_item(self._tx, self._repository.id, "release", release)
            if item is not None:
                entries = item_entries(self._repository, item, 0)
                yield match_of(self._repository, next(entries), _similarity(wanted[release]), exact=True)
        for tag in history_store.tags(self._tx, self._repository.id):
            if tag.name in wanted:
                entry = tag_entry(self._repository, tag, 0)
                yield match_of(self._repository, entry, _similarity(wanted[tag.name]), exact=True)

    def _definitions(self, name: NamedSymbol) -> list[FoundSymbol]:
        found = history_store.symbols(self._tx, self._repository.id, name.spellings, MOST_DEFINITIONS)
        if name.strict:
            found = [symbol for symbol in found if symbol.name == name.text]
        if name.container:
            inside = [symbol for symbol in found if _is_inside(symbol, name.container)]
            found = inside or (found if name.stands_alone else [])

        def order(symbol: FoundSymbol) -> tuple[bool, bool, bool, int]:
            return symbol.name != name.text, _is_aside(symbol.path), bool(symbol.container), len(symbol.path)

        return sorted(found, key=order)

    def _passage(self, path: str, line: int, similarity: float) -> Match | None:
        """The passage of a file that has a line, or its first."""
        id = entry_id(self._repository.id, path)
        parts = self._search.parts(self._tx, self._repository.workspace_id, FILE, id)
        if not parts:
            return None
        held = next((part for part in parts if _holds(part, line)), parts[0])
        return match_of(self._repository, held, similarity, exact=True)

    def _bare(self, file: KnownFile, name: Name) -> Match:
        """A file that has no passages: binary, too large, or not indexed yet."""
        return Match(
            repository=self._repository,
            type=FILE,
            source_id=file_source(file.path, None, None),
            title=file.path,
            content=f"{file.path} ({file.kind}, {file.size:,} bytes)",
            similarity=_similarity(name),
            occurred_at=None,
            path=file.path,
            exact=True,
        )


def _similarity(name: Name | ItemNumber) -> float:
    return 1.0 if name.whole else NAMED


def _holds(part: Hit, line: int) -> bool:
    start, end = part.meta.get("start_line"), part.meta.get("end_line")
    return isinstance(start, int) and isinstance(end, int) and start <= line <= end


def _is_inside(symbol: FoundSymbol, container: str) -> bool:
    """Whether a symbol is in that class or module; a module is also a file's name."""
    stem = symbol.path.rsplit("/", 1)[-1].split(".", 1)[0]
    around = [*symbol.container.split("."), stem, *symbol.path.split("/")[-2:-1]]
    return container.lower() in (part.lower() for part in around)


def _is_aside(path: str) -> bool:
    """Whether a file only uses or copies what others define."""
    return any(part in _TEST_PARTS or part.startswith("test_") for part in path.lower().split("/"))


def _tag_spellings(name: str) -> tuple[str, ...]:
    return (name, name.removeprefix("v")) if name.startswith("v") else (name, f"v{name}")
