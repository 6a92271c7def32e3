"""Owns changing YAML as text: what is ours is put in, every other character stays.

ruamel.yaml keeps comments, but writes indentation, spaces, line ends and `---` its own way (decision 26).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from holdfast.features.client_bundles.files.jsonc import TextEdit, apply
from holdfast.features.client_bundles.files.values import Exactly, fresh, is_same_item, merged, mismatch, missing
from holdfast.features.client_bundles.model import Unmergeable


def merge(text: str, new: Mapping[str, Any]) -> str:
    """The text with our settings in it. Raises Unmergeable on text that is not one YAML document."""
    newline = "\r\n" if "\r\n" in text else "\n"
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    plain = text.removeprefix("\ufeff")
    old, root = _read(plain)
    wanted = merged(old, new)
    if root is None or old is None:
        before = plain if not plain or plain.endswith("\n") else plain + newline
        result = before + _dump(new, newline)
    else:
        editor = _Editor(plain, newline)
        editor.merge(root, new, ())
        result = apply(plain, editor.edits)
    if _read(result)[0] != wanted:
        raise Unmergeable("it could not be changed safely; add the settings by hand.")
    return mark + result


def _read(text: str) -> tuple[Any, yaml.Node | None]:
    try:
        return yaml.safe_load(text), yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as problem:
        where = getattr(problem, "problem_mark", None)
        place = f" line {where.line + 1}, column {where.column + 1}:" if where else ""
        why = getattr(problem, "problem", None) or "it cannot be read"
        raise Unmergeable(f"it is not valid YAML:{place} {why}.") from None


class _Editor:
    """Collects the changes to one text."""

    def __init__(self, text: str, newline: str) -> None:
        self.text = text
        self.newline = newline
        self.edits: list[TextEdit] = []

    def merge(self, node: yaml.Node, new: Any, path: tuple[str, ...], column: int = 0) -> None:
        """`column` is where the key stands that has this value."""
        if isinstance(new, Mapping) and isinstance(node, yaml.MappingNode) and node.value:
            self._merge_mapping(node, new, path)
        elif isinstance(new, list) and not isinstance(new, Exactly) and isinstance(node, yaml.SequenceNode):
            self._merge_sequence(node, new, path, column)
        elif _plain(node) != new:
            self._replace(node, new, path, column)

    def _merge_mapping(self, node: yaml.MappingNode, new: Mapping[str, Any], path: tuple[str, ...]) -> None:
        there = {key.value: (key, value) for key, value in node.value}
        added = {}
        for name, value in new.items():
            if name in there:
                key, old = there[name]
                self.merge(old, value, (*path, name), key.start_mark.column)
            else:
                added[name] = value
        if not added:
            return
        if node.flow_style:
            ours = ", ".join(f"{json.dumps(name)}: {_inline(value)}" for name, value in added.items())
            self._at(self._end(node) - 1, ", " + ours)
            return
        self._at(self._line_end(node), _dump(added, self.newline, node.value[0][0].start_mark.column, lead=True))

    def _merge_sequence(self, node: yaml.SequenceNode, new: Sequence[Any], path: tuple[str, ...], column: int) -> None:
        for child in node.value:
            for ours in new:
                if isinstance(ours, Mapping) and is_same_item(_plain(child), ours):
                    self.merge(child, ours, path)
        added = missing(_plain(node), new)
        if not added:
            return
        if node.flow_style:
            ours_text = ", ".join(_inline(item) for item in added)
            self._at(self._end(node) - 1, f", {ours_text}" if node.value else ours_text)
            return
        dash = self.text.rfind("-", 0, node.value[0].start_mark.index)
        blank = dash - (self.text.rfind("\n", 0, dash) + 1)
        self._at(self._line_end(node), _dump(added, self.newline, blank, lead=True))

    def _replace(self, node: yaml.Node, new: Any, path: tuple[str, ...], column: int) -> None:
        start, end = node.start_mark.index, self._end(node)
        if isinstance(new, Mapping):
            if _plain(node) not in (None, {}):
                raise mismatch(path, "an object")
            self.edits.append(TextEdit(start, end, ""))
            self._at(self._line_end(node), _dump(new, self.newline, column + 2, lead=True))
            return
        # A key without a value has nothing to replace, and its colon needs a blank.
        gap = " " if start == end and not self.text[start - 1 : start].isspace() else ""
        self.edits.append(TextEdit(start, end, gap + _inline(new)))

    def _line_end(self, node: yaml.Node) -> int:
        found = self.text.find("\n", self._end(node))
        if found < 0:
            return len(self.text)
        return found - 1 if self.text[found - 1] == "\r" else found

    def _end(self, node: yaml.Node) -> int:
        """Where the node's own text ends; the library counts what follows a block to it."""
        if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
            last = node.value[-1]
            return self._end(last[1] if isinstance(last, tuple) else last)
        end = int(node.end_mark.index)
        is_block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
        return len(self.text[:end].rstrip()) if is_block else end

    def _at(self, place: int, text: str) -> None:
        self.edits.append(TextEdit(place, place, text))


def _plain(node: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _inline(value: Any) -> str:
    return json.dumps(fresh(value), ensure_ascii=False)


def _dump(value: Any, newline: str, column: int = 0, lead: bool = False) -> str:
    text: str = yaml.safe_dump(fresh(value), sort_keys=False, allow_unicode=True, width=100_000)
    lines = [" " * column + line for line in text.splitlines()]
    return newline + newline.join(lines) if lead else newline.join(lines) + newline
