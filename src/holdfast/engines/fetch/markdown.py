"""Owns turning a parsed page into light Markdown: headings, lists, tables, quotes, code; no boilerplate."""

import re
from typing import Any

from holdfast.engines.fetch.dom import select

_SKIPPED = frozenset(
    {"script", "style", "noscript", "template", "svg", "math", "iframe", "object", "head", "nav", "footer", "aside"}
    | {"button", "select", "textarea", "input", "dialog", "canvas"}
)
_BOILERPLATE = frozenset({"nav", "footer", "aside"})
_ROLES = frozenset({"navigation", "contentinfo", "banner", "search", "complementary"})
_BLOCKS = frozenset(
    {"p", "div", "section", "article", "main", "header", "address", "figure", "figcaption", "details", "summary", "dl"}
    | {"dt", "dd", "fieldset", "form", "hr", "body", "html", "center", "table", "thead", "tbody", "tr", "td", "th"}
)
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
MAX_TEXT = 200_000
_MAX_DEPTH = 150
_LONGEST_CELL = 300
_SPACE = re.compile(r"[ \t\r\n\f\v\u00a0]+")
# Stands for <br> until the white space around it is collapsed; source text never means it.
_BREAK = "\u2028"
_ELEMENT, _TEXT = 1, 3


def to_markdown(root: Any, *, limit: int, boilerplate: bool = False) -> str:
    """The readable text below `root`, at most `limit` characters; navigation and footers only on request."""
    return _Renderer(limit, boilerplate).render(root)


def collapse(text: str) -> str:
    """Text with every run of white space made one space."""
    return _SPACE.sub(" ", text).strip()


class _Renderer:
    def __init__(self, limit: int, boilerplate: bool) -> None:
        self._limit = limit
        self._skipped = _SKIPPED - _BOILERPLATE if boilerplate else _SKIPPED
        self._roles: frozenset[str] = frozenset() if boilerplate else _ROLES
        self._blocks: list[str] = []
        self._line: list[str] = []
        self._length = 0
        self._lists: list[str] = []
        self._quotes = 0
        self._lead = ""

    def render(self, root: Any) -> str:
        self._walk(root, 0)
        self._flush()
        text = ""
        for block in self._blocks:
            # List items belong together; everything else stands apart.
            tight = block.lstrip().startswith(("- ", "1. ")) and text.rpartition("\n")[2].lstrip().startswith(
                ("- ", "1. ")
            )
            text += ("" if not text else "\n" if tight else "\n\n") + block
        return text[: self._limit].strip()

    def _walk(self, node: Any, depth: int) -> None:
        child = node.first_child
        while child is not None and self._length < self._limit:
            if child.type == _TEXT:
                self._line.append(child.value or "")
                self._length += len(child.value or "")
            elif child.type == _ELEMENT:
                self._element(child, depth + 1)
            child = child.next

    def _element(self, node: Any, depth: int) -> None:
        tag = node.tag
        if tag in self._skipped or self._is_hidden(node):
            return
        if depth > _MAX_DEPTH:
            self._line.append(f" {node.text} ")
        elif tag == "br":
            self._line.append(_BREAK)
        elif tag in ("code", "kbd"):
            text = collapse(node.text)
            self._line.append(f"`{text}`" if text else "")
        elif tag == "pre":
            self._flush()
            self._add(f"```\n{node.text.strip(chr(10))}\n```")
        elif tag == "table" and (rows := _rows(node)):
            self._flush()
            self._add(_table(rows))
        else:
            self._structured(node, tag, depth)

    def _structured(self, node: Any, tag: str, depth: int) -> None:
        if tag in _HEADINGS:
            self._block(node, depth, _HEADINGS[tag])
        elif tag == "li":
            ordered = bool(self._lists) and self._lists[-1] == "ol"
            self._block(node, depth, "  " * (len(self._lists) - 1) + ("1. " if ordered else "- "))
        elif tag in ("ul", "ol"):
            self._lists.append(tag)
            self._block(node, depth, "")
            self._lists.pop()
        elif tag == "blockquote":
            self._flush()
            self._quotes += 1
            self._block(node, depth, "")
            self._quotes -= 1
        elif tag in _BLOCKS:
            self._block(node, depth, "")
        else:
            self._walk(node, depth)

    def _is_hidden(self, node: Any) -> bool:
        if node.hasattr("hidden") or node.getattr("aria-hidden") == "true":
            return True
        return (node.getattr("role") or "") in self._roles

    def _block(self, node: Any, depth: int, lead: str) -> None:
        self._flush()
        self._lead = lead or self._lead
        self._walk(node, depth)
        self._flush()
        self._lead = "" if lead else self._lead

    def _flush(self) -> None:
        lines = [collapse(line) for line in "".join(self._line).split(_BREAK)]
        text = "\n".join(line for line in lines if line)
        self._line.clear()
        if text:
            self._add(self._lead + text)
            self._lead = ""

    def _add(self, block: str) -> None:
        if self._quotes:
            block = "\n".join("> " + line for line in block.split("\n"))
        self._blocks.append(block)
        self._length += len(block)


def _rows(table: Any) -> list[list[str]]:
    """The cells of a table of data; empty for a table that only arranges the page."""
    if table.query_selector("table, ul, ol, pre, h1, h2, h3, p + p") is not None:
        return []
    rows = [
        [collapse(cell.text).replace("|", "\\|") for cell in select(row, "td, th")]
        for row in select(table, "tr", 1_000)
    ]
    rows = [row for row in rows if any(row)]
    if any(len(cell) > _LONGEST_CELL for row in rows for cell in row) or max(map(len, rows), default=0) < 2:
        return []
    return rows


def _table(rows: list[list[str]]) -> str:
    width = max(map(len, rows))
    lines = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])
