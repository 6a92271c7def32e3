"""Owns chunking source code: a function or class stays whole where it fits, and carries its name."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

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
    r"(_?(definition|declaration|item|specifier|spec|clause))?|decorated_definition|export_statement|singleton_method"
)
_OWN_TOKENS = 40
"""A definition of at least so many tokens is a passage of its own; smaller neighbours share one."""
_MAX_DEPTH = 40


@dataclass(frozen=True, slots=True)
class _Unit:
    start: int
    end: int
    path: tuple[str, ...]
    is_definition: bool


def chunk_code(text: str, language: str | None) -> Iterator[Chunk]:
    """Source code in passages; without a grammar for the language it is cut at lines."""
    grammar = _GRAMMARS.get(language or "")
    if grammar is None:
        yield from (Chunk(passage) for passage in pack(_blocks(text)))
        return
    source = text.encode()
    tree = tree_sitter.Parser(tree_sitter.Language(grammar())).parse(source)
    held: list[_Unit] = []
    for unit in _units(tree.root_node, source, (), 0):
        if held and not _joins(held, unit, source):
            yield from _passages(held, source)
            held = []
        held.append(unit)
    if held:
        yield from _passages(held, source)


def _units(node: tree_sitter.Node, source: bytes, path: tuple[str, ...], depth: int) -> Iterator[_Unit]:
    """Pieces that cover the node without a gap: each child up to where the next begins, large ones opened further."""
    children = node.children
    ends = [child.start_byte for child in children[1:]] + [node.end_byte]
    comments = None
    for number, (child, end) in enumerate(zip(children, ends, strict=True)):
        start = comments if comments is not None else (child.start_byte if number or depth else node.start_byte)
        comments = None
        if "comment" in child.type and number < len(children) - 1:
            # A comment belongs to what it stands above.
            comments = start
            continue
        is_definition = _DEFINITION.fullmatch(child.type) is not None
        inner = (*path, name) if is_definition and (name := _name(child)) else path
        large = end - start > 4 * MAX_TOKENS and count_tokens(source[start:end].decode(errors="replace")) > MAX_TOKENS
        if large and child.child_count and depth < _MAX_DEPTH:
            yield from _opened(child, source, inner, depth, start, end)
        else:
            yield _Unit(start, end, inner, is_definition)


def _opened(
    child: tree_sitter.Node, source: bytes, path: tuple[str, ...], depth: int, start: int, end: int
) -> Iterator[_Unit]:
    pieces = list(_units(child, source, path, depth + 1))
    for number, piece in enumerate(pieces):
        yield _Unit(
            start if number == 0 else piece.start,
            end if number == len(pieces) - 1 else piece.end,
            piece.path,
            piece.is_definition,
        )


def _joins(held: list[_Unit], unit: _Unit, source: bytes) -> bool:
    """Whether a unit shares the passage of those before it."""
    if unit.path[: len(held[0].path)] != held[0].path and held[0].path[: len(unit.path)] != unit.path:
        same_parent = unit.path[:-1] == held[0].path[:-1]
        if not same_parent:
            return False
    for each in (held[-1], unit):
        if each.is_definition and _tokens(source, each.start, each.end) >= _OWN_TOKENS:
            return False
    return _tokens(source, held[0].start, unit.end) <= MAX_TOKENS


def _passages(held: list[_Unit], source: bytes) -> Iterator[Chunk]:
    paths = {unit.path for unit in held}
    path = held[0].path if len(paths) == 1 else _shared([unit.path for unit in held])
    start, end = held[0].start, held[-1].end
    # From the beginning of the line, so that indentation shows what belongs to what.
    line = source.rfind(b"\n", 0, start) + 1
    text = source[line if not source[line:start].strip() else start : end].decode(errors="replace").strip("\n").rstrip()
    if not text.strip():
        return
    heading = " › ".join(path)[:200]
    if count_tokens(text) <= MAX_TOKENS:
        yield Chunk(text, heading)
    else:
        yield from (Chunk(piece, heading) for piece in split(text))


def _shared(paths: list[tuple[str, ...]]) -> tuple[str, ...]:
    common = paths[0]
    for path in paths[1:]:
        length = next((n for n, (a, b) in enumerate(zip(common, path, strict=False)) if a != b), None)
        common = common[: min(len(common), len(path)) if length is None else length]
    return common


def _name(node: tree_sitter.Node) -> str:
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


def _tokens(source: bytes, start: int, end: int) -> int:
    # A token has at least one byte; beyond this it is surely too many, and counting is not worth it.
    if end - start > 16 * MAX_TOKENS:
        return MAX_TOKENS + 1
    return count_tokens(source[start:end].decode(errors="replace"))


def _blocks(text: str) -> Iterator[str]:
    """Pieces between blank lines, their indentation kept."""
    for piece in re.split(r"\n[ \t]*\n", text):
        if piece.strip():
            yield piece.strip("\n").rstrip()
