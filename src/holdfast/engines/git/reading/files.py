"""Owns reading the files of a commit into passages and symbols; only those that changed. Runs in the child."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Literal

import pygit2
from pygit2.enums import FileMode

from holdfast.engines.extract.chunk import chunk_text
from holdfast.engines.extract.code import chunk_code, parse
from holdfast.engines.extract.lines import NumberedPassage, number, number_markdown, number_sections
from holdfast.engines.extract.model import ExtractionFailed
from holdfast.engines.extract.symbols import Definition, definitions
from holdfast.engines.extract.text import clean, decode
from holdfast.engines.git.reading.attributes import Attributes
from holdfast.engines.git.reading.repository import find_commit, spell
from holdfast.engines.git.reading.sorts import is_binary, is_generated, language_of, passages_of_data

_BATCH = 50
_BATCH_CHARACTERS = 2_000_000
_MOST_PASSAGES = 600
_MOST_CHARACTERS = 8_000
_MOST_DEPTH = 200
_LFS = b"version https://git-lfs.github.com/spec/"
_LFS_SIZE = re.compile(rb"^size (\d{1,18})$", re.MULTILINE)
_PUNCTUATION = re.compile(r"([=\-~^\"'`#*+:.<>_])\1{2,}\s*")

_RELEASE = re.compile(
    r"[*=# ]{0,4}(?:[A-Za-z][\w ]{0,40}\b(?:release|version)\s+|(?:[A-Za-z][\w-]*\s+){0,2})v?\d+\.\d+[\w.+-]*"
    r"\s*(?::|[\[(–—-].{0,40})?\s*",
    re.I,
)
_LEAST_RELEASES = 2

Entry = tuple[bytes, str, int]
"""A path, the hash of what is there, and its mode."""


def walk(
    repo: pygit2.Repository, head: str, limits: dict[str, Any], known: dict[str, str], send: Callable[[object], None]
) -> None:
    """Send the files that differ from what is known, in batches, then the paths that went."""
    held: list[list[Any]] = []
    size = 0
    for row in _rows(repo, find_commit(repo, head), limits["file_bytes"], known, send) if head else ():
        held.append(row)
        size += sum(len(passage[0]) for passage in row[6])
        if len(held) == _BATCH or size > _BATCH_CHARACTERS:
            send({"files": held})
            held, size = [], 0
    if held:
        send({"files": held})
    if known:
        send({"removed": list(known)})


def _rows(
    repo: pygit2.Repository, commit: pygit2.Commit, most: int, known: dict[str, str], send: Callable[[object], None]
) -> Iterator[list[Any]]:
    """The files that differ; what is left in `known` afterwards is gone."""
    found = list(leaves(commit.tree))
    send({"total": sum(known.get(spell(path)) != blob for path, blob, _ in found)})
    attributes = Attributes(repo, commit, (path for path, _, _ in found))
    for path, blob, mode in found:
        name = spell(path)
        if known.pop(name, None) != blob:
            yield _file(repo, name, blob, mode, most, is_foreign=attributes.is_foreign(path))


def leaves(tree: pygit2.Tree, prefix: bytes = b"", depth: int = 0) -> Iterator[Entry]:
    """Everything in a tree that is no directory, in order."""
    for entry in tree:
        path = prefix + (entry.raw_name or b"")
        if entry.filemode != FileMode.TREE:
            yield path, str(entry.id), entry.filemode
        elif depth < _MOST_DEPTH and isinstance(entry, pygit2.Tree):
            yield from leaves(entry, path + b"/", depth + 1)


def _file(repo: pygit2.Repository, path: str, blob: str, mode: int, most: int, *, is_foreign: bool) -> list[Any]:
    """A file in the order of the model's fields."""
    if mode == FileMode.COMMIT:
        return _row(path, blob, "submodule", 0)
    if mode == FileMode.LINK:
        return _row(path, blob, "symlink", 0)
    # The header first: what is too large is never loaded.
    try:
        size = repo.odb.read_header(blob)[1]
        if size > most:
            return _row(path, blob, "large", size)
        data = repo.odb.read(blob)[1]
    except KeyError:
        # A partial clone left it out.
        return _row(path, blob, "large", 0)
    if size < 1024 and data.startswith(_LFS):
        told = _LFS_SIZE.search(data)
        return _row(path, blob, "lfs", int(told[1]) if told else 0)
    try:
        text = None if is_binary(data) else clean(decode(data))
    except ExtractionFailed:
        text = None
    if text is None:
        return _row(path, blob, "binary", size)
    kind, language = language_of(path)
    lines = text.count("\n") + (not text.endswith("\n") and text != "")
    if is_foreign or is_generated(path, data):
        return _row(path, blob, kind, size, language, lines, truncated=True)
    passages, symbols = read(text, kind, language)
    bounded, cut = _bounded(passages, passages_of_data(path, size) or _MOST_PASSAGES)
    return _row(path, blob, kind, size, language, lines, bounded, symbols, truncated=cut)


def _row(
    path: str,
    blob: str,
    kind: str,
    size: int,
    language: str = "",
    lines: int = 0,
    passages: Iterable[list[Any]] = (),
    symbols: Iterable[Definition] = (),
    *,
    truncated: bool = False,
) -> list[Any]:
    defined = [[each.name, each.kind, each.start_line, each.end_line, each.container] for each in symbols]
    return [path, blob, kind, size, language, lines, list(passages), defined, truncated]


def read(text: str, kind: str, language: str) -> tuple[Iterator[NumberedPassage], list[Definition]]:
    """The passages and symbols of a file's text."""
    if kind == "code":
        tree = parse(text.encode(), language)
        symbols = definitions(tree) if tree is not None else []
        return number(text, chunk_code(text, language, tree)), symbols
    if language == "markdown":
        return number_markdown(text), []
    if language == "rst":
        return number_sections(_rst_sections(text.split("\n"))), []
    lines = text.split("\n")
    if sum(_is_release(line) for line in lines) >= _LEAST_RELEASES:
        return number_sections(_release_sections(lines)), []
    return number(text, chunk_text(text)), []


def _bounded(passages: Iterator[NumberedPassage], most: int) -> tuple[list[list[Any]], bool]:
    kept = [
        [passage.text[:_MOST_CHARACTERS], passage.heading[:300], passage.start_line, passage.end_line]
        for passage in islice(passages, most)
    ]
    return kept, next(passages, None) is not None


def _is_release(line: str) -> bool:
    return bool(line) and not line[0].isspace() and _RELEASE.fullmatch(line) is not None


def _release_sections(lines: list[str]) -> Iterator[tuple[int, str, int, list[str]]]:
    """Plain release notes by their versions: `4.46.1:`, `Release 1.17.1 [27-Nov-2023]`, each at a line's beginning."""
    heading, first, body = "", 0, list[str]()
    for place, line in enumerate(lines):
        if not _is_release(line):
            body.append(line)
            continue
        yield from _release_section(heading, first, body)
        heading, first, body = line.strip("*=# \t").rstrip(": "), place + 1, []
    yield from _release_section(heading, first, body)


def _release_section(heading: str, first: int, body: list[str]) -> Iterator[tuple[int, str, int, list[str]]]:
    if any(line.strip() for line in body):
        yield 1 if heading else 0, heading, first, body
    elif heading:
        # A number alone in its line: what says nothing below it is text.
        yield 0, "", first - 1, [heading]


def _rst_sections(lines: list[str]) -> Iterator[tuple[int, str, int, list[str]]]:
    """reStructuredText by its headings: a line of text over a line of marks; a mark's level is when it first came."""
    styles: list[tuple[str, bool]] = []
    level, heading, first, body = 0, "", 0, list[str]()
    number = 0
    while number < len(lines):
        found = _rst_heading(lines, number)
        if found is None:
            body.append(lines[number])
            number += 1
            continue
        title, style, used = found
        if style not in styles:
            styles.append(style)
        yield level, heading, first, body
        level, heading, body = styles.index(style) + 1, title, []
        number += used
        first = number
    yield level, heading, first, body


def _rst_heading(lines: list[str], at: int) -> tuple[str, tuple[str, bool], Literal[2, 3]] | None:
    """(title, its marks, how many lines it takes) where a heading begins."""
    line = lines[at]
    if _PUNCTUATION.fullmatch(line) and at + 2 < len(lines) and lines[at + 2].strip() == line.strip():
        title = lines[at + 1].strip()
        return (title[:120], (line[0], True), 3) if title and len(title) <= len(line.strip()) else None
    title = line.strip()
    under = lines[at + 1] if at + 1 < len(lines) else ""
    blank_before = at == 0 or not lines[at - 1].strip()
    if title and blank_before and not line[0].isspace() and _PUNCTUATION.fullmatch(under):
        return (title[:120], (under[0], False), 2) if len(under.strip()) >= len(title) else None
    return None
