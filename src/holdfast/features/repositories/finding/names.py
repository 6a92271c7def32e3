"""Owns what a query names outright: commit hashes, numbers of items, paths, symbols and tags, as people write them."""

import re
from dataclasses import dataclass

from holdfast.features.repositories.model import ItemKind

MOST_NAMES = 8
"""Of each kind in one query; a pasted log names hundreds."""
LONGEST_NAME = 300

_HASH = re.compile(r"(?<![\w/.-])[0-9a-f]{7,40}(?![\w.-])|(?<=/commit/)[0-9a-f]{7,40}", re.IGNORECASE)
_NUMBER = re.compile(
    r"(?<![\w&])(?:(?P<kind>issues?|bugs?|tickets?|prs?|pull(?:\s+requests?)?|mrs?|merge\s+requests?|discussions?|gh)"
    r"[\s/-]*[#!]?|(?P<sign>[#!]))(?P<number>\d{1,9})\b",
    re.IGNORECASE,
)
_URL_NUMBER = re.compile(r"/(?P<kind>issues|pull|merge_requests|discussions)/(?P<number>\d{1,9})\b")
_LINES = re.compile(r"(?:#L(\d+)(?:-L?\d+)?|:(\d+)(?:[-:]\d+)?)$")
_BLOB_URL = re.compile(r"://[^/]+/.+?/(?:blob|blame|raw)/[^/]+/(?P<path>[^?#]+)(?:\?[^#]*)?(?P<lines>#.*)?$")
_FILE_NAME = re.compile(r"\.?[\w+@~-][\w+@~.-]*\.[A-Za-z_][\w+-]{0,15}|\.[A-Za-z][\w.-]+")
_VERSION = re.compile(r"[A-Za-z_-]{0,40}\d+(?:\.\d+)+[\w.+-]*")
_SYMBOL = re.compile(r"[^\W\d]\w*(?:(?:\.|::|#|->)[^\W\d]\w*)*")
_SPLIT = re.compile(r"\.|::|#|->")
_HUMPS = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2,}[a-z]")
_HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[^\WA-Z_]+|[A-Z]+")
_EDGES = "`'\"“”‘’()[]{}<>,;:!?*"
_ISSUES: tuple[ItemKind, ...] = ("issue", "discussion")
_PULLS: tuple[ItemKind, ...] = ("pull_request",)
_ANY: tuple[ItemKind, ...] = ("pull_request", "issue", "discussion")
# Words around a name that say only what sort of thing it is, or that somebody looks for it.
_FILLER_WORDS = (
    "a an the of in is are was what whats who where wheres which show me find open read look up for does do did it "
    "defined definition implemented declared used called about commit sha hash revision file path function method "
    "class def func fn struct type symbol module constant variable tag release version issue bug ticket pr pull merge "
    "request mr discussion number see explain describe"
)
_FILLERS = frozenset(_FILLER_WORDS.split())
_SELVES = ("self", "this", "cls", "super")


@dataclass(frozen=True, slots=True)
class Name:
    """Something a query names; `whole` where the query is nothing else."""

    text: str
    whole: bool


@dataclass(frozen=True, slots=True)
class ItemNumber(Name):
    """The number of an item, with the kinds that were meant."""

    kinds: tuple[ItemKind, ...] = _ANY


@dataclass(frozen=True, slots=True)
class Path(Name):
    """A path or the end of one, and the line that was named with it."""

    line: int | None = None


@dataclass(frozen=True, slots=True)
class NamedSymbol(Name):
    """What code defines. A plain word in a sentence is one only where it is written exactly so."""

    container: str = ""
    strict: bool = False

    @property
    def stands_alone(self) -> bool:
        """Whether it is likely a name even where its container is not known: `self.parse_location`."""
        return not self.container or self.container in _SELVES or _is_code(self.text)

    @property
    def spellings(self) -> tuple[str, ...]:
        """The name in small letters, as each convention would write it."""
        parts = [part.lower() for piece in self.text.split("_") for part in _HUMP.findall(piece)]
        if self.strict or len(parts) < 2:
            return (self.text.lower(),)
        return tuple(dict.fromkeys((self.text.lower(), "_".join(parts), "".join(parts))))


@dataclass(frozen=True, slots=True)
class QueryNames:
    """Everything a query names."""

    hashes: tuple[Name, ...] = ()
    numbers: tuple[ItemNumber, ...] = ()
    paths: tuple[Path, ...] = ()
    symbols: tuple[NamedSymbol, ...] = ()
    tags: tuple[Name, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.hashes or self.numbers or self.paths or self.symbols or self.tags)


def names_in(query: str) -> QueryNames:
    """Read what a query names. Whether there is such a thing is for the store to say."""
    # Nothing that a store keeps has NUL in it, and PostgreSQL takes none in a parameter.
    query = query.replace("\0", " ")
    tokens = [token for token in map(_bare, query.split()) if token]
    telling = [token for token in tokens if token.lower() not in _FILLERS] or tokens
    alone = len(telling) == 1
    return QueryNames(
        hashes=tuple(Name(match.group().lower(), alone) for match in list(_HASH.finditer(query))[:MOST_NAMES]),
        numbers=tuple(_numbers(query, alone))[:MOST_NAMES],
        paths=tuple(_paths(telling, alone))[:MOST_NAMES],
        symbols=tuple(_symbols(query, tokens, telling))[:MOST_NAMES],
        tags=tuple(Name(token, alone) for token in telling if alone or _VERSION.fullmatch(token))[:MOST_NAMES],
    )


def _bare(token: str) -> str:
    """A word without the quotes and stops around it, and a call without its brackets."""
    bare = token.strip(_EDGES).removesuffix("()").removesuffix("(").rstrip(".")
    return bare.strip(_EDGES) if len(bare) <= LONGEST_NAME else ""


def _numbers(query: str, alone: bool) -> list[ItemNumber]:
    found = {}
    for match in [*_NUMBER.finditer(query), *_URL_NUMBER.finditer(query)]:
        groups = match.groupdict()
        kind, number = (groups["kind"] or groups.get("sign") or "").lower(), groups["number"].lstrip("0") or "0"
        if kind.startswith(("pr", "pull", "mr", "merge", "!")):
            kinds = _PULLS
        elif kind.startswith(("issue", "bug", "ticket")):
            kinds = _ISSUES
        else:
            kinds = ("discussion",) if kind.startswith("discussion") else _ANY
        found[number] = ItemNumber(number, alone or match.group().strip() == query.strip(), kinds)
    return list(found.values())


def _paths(telling: list[str], alone: bool) -> list[Path]:
    found = []
    for written in telling:
        pasted = _BLOB_URL.search(written)
        token = f"{pasted['path']}{pasted['lines'] or ''}" if pasted else written
        lines = _LINES.search(token)
        text = token[: lines.start()] if lines else token
        if "://" in token or not (alone or pasted or _FILE_NAME.fullmatch(text) or "/" in text.strip("/")):
            continue
        line = int(lines.group(1) or lines.group(2)) if lines else None
        found.append(Path(text.removeprefix("./").strip("/"), alone, line))
    return [path for path in found if path.text]


def _is_code(name: str) -> bool:
    return "_" in name.strip("_") or _HUMPS.search(name) is not None


def _symbols(query: str, tokens: list[str], telling: list[str]) -> list[NamedSymbol]:
    alone = len(telling) == 1
    found: dict[tuple[str, str], NamedSymbol] = {}
    for token in telling:
        if not _SYMBOL.fullmatch(token):
            continue
        *around, name = _SPLIT.split(token)
        container = around[-1] if around else ""
        as_code = _is_code(name) or around or f"{token}(" in query or f"`{token}" in query
        if alone or as_code:
            found[container, name] = NamedSymbol(name, alone, container)
        elif name[0].isupper() and len(name) > 3 and token != tokens[0]:
            found[container, name] = NamedSymbol(name, False, container, strict=True)
    if not found and 2 <= len(telling) <= 4 and all(token.isalpha() for token in telling):
        # "retry policy" may be RetryPolicy or retry_policy.
        name = "_".join(token.lower() for token in telling)
        found["", name] = NamedSymbol(name, False)
    return list(found.values())
