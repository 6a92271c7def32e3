"""Owns changing TOML: what is ours is put in, comments, order and every other key stay."""

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable, Item

from holdfast.features.client_bundles.files.values import merged, without
from holdfast.features.client_bundles.model import Unmergeable


def merge(text: str, new: Mapping[str, Any], stale: Sequence[tuple[str, ...]] = (), opening: str = "") -> str:
    """The text with our settings in it and the stale ones out of it."""
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    plain = text.removeprefix("\ufeff")
    # tomlkit writes bare newlines; a file that has the other kind throughout keeps it.
    is_crlf = "\r\n" in plain and "\n" not in plain.replace("\r\n", "")
    plain = plain.replace("\r\n", "\n") if is_crlf else plain
    wanted = without(merged(load(plain), new), stale)
    result = _merge(plain, new, stale, opening)
    if load(result) != wanted:
        raise Unmergeable("it could not be changed safely; add the settings by hand.")
    return mark + (result.replace("\n", "\r\n") if is_crlf else result)


def _merge(text: str, new: Mapping[str, Any], stale: Sequence[tuple[str, ...]], opening: str) -> str:
    if not text.strip():
        document = tomlkit.document()
        _put(document, new)
        return text + opening + tomlkit.dumps(document)
    try:
        document = tomlkit.parse(text if text.endswith("\n") else text + "\n")
        for path in stale:
            _remove(document, path)
        _put(document, new)
        return tomlkit.dumps(document)
    except (TOMLKitError, ValueError) as problem:
        raise Unmergeable(f"it could not be changed safely ({problem}); add the settings by hand.") from None


def load(text: str) -> dict[str, Any]:
    """What the text says."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise Unmergeable(f"it is not valid TOML: {problem}.") from None


def _put(table: Any, new: Mapping[str, Any], depth: int = 0) -> None:
    for key, value in new.items():
        there = table.get(key)
        if isinstance(value, Mapping):
            if there is None:
                table[key] = _inline(value) if isinstance(table, InlineTable) else _table(value, depth)
            else:
                _put(there, value, depth + 1)
        elif there is None or there != value:
            table[key] = _plain(value)


def _table(value: Mapping[str, Any], depth: int) -> Item:
    """The first two levels are tables with headings, what is deeper is written in line."""
    if depth >= 2:
        return _inline(value)
    # A table that only holds tables has no heading of its own.
    made = tomlkit.table(is_super_table=all(isinstance(item, Mapping) for item in value.values()))
    for key, item in value.items():
        made[key] = _table(item, depth + 1) if isinstance(item, Mapping) else _plain(item)
    return made


def _inline(value: Mapping[str, Any]) -> InlineTable:
    made: InlineTable = tomlkit.inline_table()
    for key, item in value.items():
        made.append(_quoted(key), _inline(item) if isinstance(item, Mapping) else item)
    return made


def _quoted(key: str) -> Any:
    return tomlkit.items.SingleKey(key, tomlkit.items.KeyType.Basic)


def _plain(value: Any) -> Item:
    if isinstance(value, str) and "\n" in value:
        return tomlkit.string(value, multiline=True)
    made: Item = tomlkit.item(value)
    return made


def _remove(table: Any, path: tuple[str, ...]) -> None:
    for key in path[:-1]:
        table = table.get(key)
        if not isinstance(table, Mapping):
            return
    if path[-1] in table:
        del table[path[-1]]
