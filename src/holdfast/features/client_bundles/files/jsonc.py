"""Owns changing JSON with comments as text: what is ours is put in, every other character stays."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from holdfast.features.client_bundles.files.values import merged, mismatch, missing
from holdfast.features.client_bundles.model import Unmergeable

_TRIVIA = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_PLAIN = re.compile(r"(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.+-])")
_MAX_DEPTH = 100


@dataclass(slots=True)
class JsonNode:
    """A value and where it stands in the text."""

    start: int
    end: int
    kind: Literal["object", "array", "plain"]
    value: Any
    members: list[tuple[str, int, "JsonNode"]] = field(default_factory=list)
    """Of an object: key, where the key begins, value. Of an array: an empty key."""
    comma: int | None = None
    """Just after the comma that follows the last member, if there is one."""


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace the text between two places."""

    start: int
    end: int
    text: str


def merge(text: str, new: Mapping[str, Any]) -> str:
    """The text with our settings in it. Raises Unmergeable on text that is not JSON with comments."""
    newline = "\r\n" if "\r\n" in text else "\n"
    root = parse(text)
    if root is None:
        before = text.rstrip()
        gap = newline if before.strip("\ufeff") else ""
        return before + gap + _render(new, "  ", newline, "") + newline
    if root.kind != "object":
        raise mismatch((), "an object")
    wanted = merged(root.value, new)
    editor = _Editor(text, newline, _unit(text, root))
    editor.merge(root, new)
    result = apply(text, editor.edits)
    done = parse(result)
    if done is None or done.value != wanted:
        raise Unmergeable("it could not be changed safely; add the settings by hand.")
    return result


def parse(text: str) -> JsonNode | None:
    """The value in the text; None where there are only blanks and comments."""
    start = _skip(text, 0)
    if start == len(text):
        return None
    node = _value(text, start, 0)
    rest = _skip(text, node.end)
    if rest != len(text):
        raise _broken(text, rest, "nothing more was expected")
    return node


def _skip(text: str, at: int) -> int:
    found = _TRIVIA.match(text, at)
    end = found.end() if found else at
    if text.startswith("/*", end):
        raise _broken(text, end, "a comment does not end")
    return end


def _value(text: str, at: int, depth: int) -> JsonNode:
    if depth > _MAX_DEPTH:
        raise _broken(text, at, "it is nested too deeply")
    if text.startswith(("{", "["), at):
        return _collection(text, at, depth)
    found = _STRING.match(text, at) or _PLAIN.match(text, at)
    if found is None:
        raise _broken(text, at, "a value was expected")
    return JsonNode(at, found.end(), "plain", json.loads(found.group()))


def _collection(text: str, start: int, depth: int) -> JsonNode:
    is_object = text[start] == "{"
    close = "}" if is_object else "]"
    node = JsonNode(start, start, "object" if is_object else "array", {} if is_object else [])
    at = _skip(text, start + 1)
    while not text.startswith(close, at):
        if node.members and node.comma is None:
            raise _broken(text, at, f"',' or '{close}' was expected")
        begins, key = at, ""
        if is_object:
            key, at = _key(text, at)
        value = _value(text, at, depth + 1)
        node.members.append((key, begins, value))
        if is_object:
            node.value[key] = value.value
        else:
            node.value.append(value.value)
        at = _skip(text, value.end)
        node.comma = None
        if text.startswith(",", at):
            node.comma = at + 1
            at = _skip(text, at + 1)
    node.end = at + 1
    return node


def _key(text: str, at: int) -> tuple[str, int]:
    found = _STRING.match(text, at)
    if found is None:
        raise _broken(text, at, "a key in double quotes was expected")
    colon = _skip(text, found.end())
    if not text.startswith(":", colon):
        raise _broken(text, colon, "':' was expected")
    return json.loads(found.group()), _skip(text, colon + 1)


def _broken(text: str, at: int, what: str) -> Unmergeable:
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return Unmergeable(f"it is not valid JSON: line {line}, column {column}: {what}.")


class _Editor:
    """Collects the changes to one text."""

    def __init__(self, text: str, newline: str, unit: str) -> None:
        self.text = text
        self.newline = newline
        self.unit = unit
        self.edits: list[TextEdit] = []

    def merge(self, node: JsonNode, new: Any) -> None:
        if isinstance(new, Mapping) and node.kind == "object":
            # Of a key given twice the last one counts, for every reader.
            there = {key: value for key, _, value in node.members}
            for key, value in new.items():
                if key in there:
                    self.merge(there[key], value)
            added = [(key, value) for key, value in new.items() if key not in there]
            self._insert(node, [f"{json.dumps(key)}: {{}}" for key, _ in added], [value for _, value in added])
        elif isinstance(new, list) and node.kind == "array":
            added_items = missing(node.value, new)
            self._insert(node, ["{}"] * len(added_items), added_items)
        elif node.value != new:
            self.edits.append(TextEdit(node.start, node.end, _render(new, self.unit, self.newline, self._indent(node))))

    def _insert(self, node: JsonNode, patterns: Sequence[str], values: Sequence[Any]) -> None:
        if not values:
            return
        last = node.members[-1][2].end if node.members else node.start + 1
        after = node.comma or last
        content_end = after + len(self.text[after : node.end - 1].rstrip())
        if node.members and node.comma is None:
            self.edits.append(TextEdit(last, last, ","))
        inner = self._member_indent(node)
        lines = [
            inner + pattern.replace("{}", _render(value, self.unit, self.newline, inner), 1)
            for pattern, value in zip(patterns, values, strict=True)
        ]
        body = self.newline + f",{self.newline}".join(lines) + ("," if node.comma else "")
        blank = self.text[content_end : node.end - 1]
        if "\n" not in blank:
            blank = self.newline + self._indent(node)
        self.edits.append(TextEdit(content_end, node.end - 1, body + blank))

    def _member_indent(self, node: JsonNode) -> str:
        for _, begins, _ in node.members:
            before = self._line_before(begins)
            if not before.strip(" \t\ufeff") and "\n" in self.text[node.start : begins]:
                return before
        return self._indent(node) + self.unit

    def _indent(self, node: JsonNode) -> str:
        """The blanks that the line begins with on which the value begins."""
        before = self._line_before(node.start).lstrip("\ufeff")
        return before[: len(before) - len(before.lstrip(" \t"))]

    def _line_before(self, at: int) -> str:
        return self.text[max(self.text.rfind("\n", 0, at), self.text.rfind("\r", 0, at)) + 1 : at]


def _unit(text: str, root: JsonNode) -> str:
    """One step of indentation, as the file has it."""
    for _, begins, _ in root.members:
        blank = text[text.rfind("\n", 0, begins) + 1 : begins]
        if blank and not blank.strip(" \t"):
            return blank
    return "  "


def _render(value: Any, unit: str, newline: str, indent: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline + indent)


def apply(text: str, edits: Sequence[TextEdit]) -> str:
    """The text with the changes made; they do not overlap."""
    pieces, at = [], 0
    # Sorting is stable: two changes at one place stay in the order in which they were asked for.
    for edit in sorted(edits, key=lambda each: each.start):
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join(pieces) + text[at:]
