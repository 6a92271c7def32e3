"""Owns chunking source code: a function or class stays whole where it fits, and carries its name."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import tree_sitter
import tree_sitter_bash
import tree_sitter_c
import tree_sitter_c_sharp
import tree_sitter_cpp
import tree_sitter_go
import tree_sitter_java
import tree_sitter_javascript
import tree_sitter_kotlin
import tree_sitter_php
import tree_sitter_python
import tree_sitter_ruby
import tree_sitter_rust
import tree_sitter_swift
import tree_sitter_typescript

from holdfast.engines.extract.chunk import MAX_TOKENS, Chunk, count_tokens, pack, split

_GRAMMARS: dict[str, Callable[[], object]] = {
    "bash": tree_sitter_bash.language,
    "c": tree_sitter_c.language,
    "cpp": tree_sitter_cpp.language,
    "csharp": tree_sitter_c_sharp.language,
    "go": tree_sitter_go.language,
    "java": tree_sitter_java.language,
    "javascript": tree_sitter_javascript.language,
    "kotlin": tree_sitter_kotlin.language,
    "php": tree_sitter_php.language_php,
    "python": tree_sitter_python.language,
    "ruby": tree_sitter_ruby.language,
    "rust": tree_sitter_rust.language,
    "swift": tree_sitter_swift.language,
    "tsx": tree_sitter_typescript.language_tsx,
    "typescript": tree_sitter_typescript.language_typescript,
}
_DEFINITION = re.compile(
    r"(function|method|class|interface|struct|enum|trait|impl|module|namespace|constructor|protocol|object|type)"
    r"_(definition|declaration|item|specifier|spec|clause)|decorated_definition|export_statement"
    # Ruby names them plainly.
    r"|class|module|method|singleton_method"
)
_WRAPPERS = ("decorated_definition", "export_statement")
_OWN_TOKENS = 110
"""A definition that fills half a passage is one of its own; smaller neighbours share one."""
_HEAD_TOKENS = 40
"""The head of a definition that is not yet worth a passage by itself."""
_MAX_DEPTH = 40
_MAX_BYTES = 2_000_000
"""Longer files are generated; they are cut at lines."""


@dataclass(frozen=True, slots=True)
class _Unit:
    start: int
    end: int
    path: tuple[str, ...]
    tokens: int
    is_definition: bool = False
    opens: bool = False
    """Whether it is the first piece of a definition too large for one passage."""


def parse(source: bytes, language: str | None) -> tree_sitter.Tree | None:
    """The syntax tree of source code; None without a grammar for the language, or for what is too long."""
    grammar = _grammar(language or "")
    return None if grammar is None or len(source) > _MAX_BYTES else tree_sitter.Parser(grammar).parse(source)


@cache
def _grammar(language: str) -> tree_sitter.Language | None:
    found = _GRAMMARS.get(language)
    return None if found is None else tree_sitter.Language(found())


def chunk_code(text: str, language: str | None, tree: tree_sitter.Tree | None = None) -> Iterator[Chunk]:
    """Source code in passages; without a grammar for the language it is cut at lines. `tree` when parsed already."""
    source = text.encode()
    tree = tree or parse(source, language)
    if tree is None:
        yield from (Chunk(passage) for passage in pack(_blocks(text)))
        return
    held: list[_Unit] = []
    size = 0
    for unit in _units(tree.root_node, source, (), 0):
        if held and not _joins(held, size, unit):
            yield from _passages(held, source)
            held, size = [], 0
        held.append(unit)
        size += unit.tokens
    if held:
        yield from _passages(held, source)


def _units(node: tree_sitter.Node, source: bytes, path: tuple[str, ...], depth: int) -> Iterator[_Unit]:
    """Pieces that cover the node without a gap: each child up to where the next begins, large ones opened further."""
    children = node.children
    ends = [*(child.start_byte for child in children[1:]), node.end_byte][: len(children)]
    comments = None
    for number, (child, end) in enumerate(zip(children, ends, strict=True)):
        start = comments if comments is not None else (child.start_byte if number or depth else node.start_byte)
        comments = None
        if "comment" in child.type and number < len(children) - 1:
            # A comment belongs to what it stands above.
            comments = start
            continue
        is_definition = child.is_named and _DEFINITION.fullmatch(child.type) is not None
        inner = (*path, name) if is_definition and (name := name_of(child)) else path
        tokens = count_tokens(source[start:end].decode(errors="replace"))
        if tokens > MAX_TOKENS and child.child_count and depth < _MAX_DEPTH:
            within = path if child.type in _WRAPPERS else inner
            pieces = _units(child, source, within, depth + 1)
            yield from _stretched(pieces, start, end, opens=is_definition)
        else:
            yield _Unit(start, end, inner, tokens, is_definition)


def _stretched(pieces: Iterator[_Unit], start: int, end: int, *, opens: bool) -> Iterator[_Unit]:
    """The pieces of a node, the first and the last reaching as far as the node with what stands around it."""
    last: _Unit | None = None
    for piece in pieces:
        if last is not None:
            yield last
        last = piece if last is not None else replace(piece, start=start, opens=opens or piece.opens)
    if last is not None:
        yield replace(last, end=end)


def _joins(held: list[_Unit], size: int, unit: _Unit) -> bool:
    """Whether a unit shares the passage of those before it."""
    head = held[0].path
    is_head = bool(head or held[0].opens) and size < _HEAD_TOKENS and unit.path[: len(head)] == head
    if is_head and not unit.is_definition:
        # A signature stays with the beginning of its body, however long that is.
        return True
    if is_head and size + unit.tokens <= MAX_TOKENS:
        # The head of a class says little without what it holds.
        return True
    if unit.opens:
        return is_head
    if any(each.is_definition and each.tokens >= _OWN_TOKENS for each in (held[-1], unit)):
        return False
    return size + unit.tokens <= MAX_TOKENS


def _passages(held: list[_Unit], source: bytes) -> Iterator[Chunk]:
    start, end = held[0].start, held[-1].end
    # From the beginning of the line, so that indentation shows what belongs to what.
    line = source.rfind(b"\n", 0, start) + 1
    text = source[line if not source[line:start].strip() else start : end].decode(errors="replace").strip("\n").rstrip()
    if not text.strip():
        return
    heading = " › ".join(_heading(held))[:200]
    if count_tokens(text) <= MAX_TOKENS:
        yield Chunk(text, heading)
    else:
        yield from (Chunk(piece, heading) for piece in split(text))


def _heading(held: list[_Unit]) -> tuple[str, ...]:
    """The path of what fills most of the passage; where nothing does, what all of it is within."""
    sizes: Counter[tuple[str, ...]] = Counter()
    for unit in held:
        sizes[unit.path] += unit.tokens
    path, size = sizes.most_common(1)[0]
    if 5 * size >= 3 * sizes.total():
        return path
    common = held[0].path
    for unit in held[1:]:
        same = [a == b for a, b in zip(common, unit.path, strict=False)]
        common = common[: same.index(False) if False in same else len(same)]
    return common


def name_of(node: tree_sitter.Node) -> str:
    """What a definition is called, however deep its grammar hides the name."""
    current: tree_sitter.Node | None = node
    for _ in range(6):
        if current is None:
            return ""
        named = current.child_by_field_name("name")
        if named is not None:
            return _words(named)
        inner = next(
            (
                found
                for field in ("definition", "declaration", "declarator", "type")
                if (found := current.child_by_field_name(field)) is not None
            ),
            None,
        )
        if inner is None:
            plain = next((c for c in current.children if c.type.endswith("identifier")), None)
            return _words(plain if plain is not None else current) if plain is not None or current is not node else ""
        current = inner
    return ""


def _words(node: tree_sitter.Node) -> str:
    text = (node.text or b"").decode(errors="replace")
    return " ".join(text.split())[:80]


def _blocks(text: str) -> Iterator[str]:
    """Pieces between blank lines, their indentation kept."""
    for piece in re.split(r"\n[ \t]*\n", text):
        if piece.strip():
            yield piece.strip("\n").rstrip()
