"""Owns how a large result is cut to a size while it still follows its schema."""

from typing import Any

from holdfast.core.text import jsontext


def shortened(data: dict[str, Any], max_bytes: int) -> dict[str, Any]:
    """The same shape with long texts and lists cut, so that it fits and still follows its schema."""
    characters, items = 2_000, 50
    cut = _cut(data, characters, items)
    while len(jsontext.dumps(cut)) > max_bytes and characters > 16:
        characters, items = characters // 2, max(1, items // 2)
        cut = _cut(data, characters, items)
    return dict(cut)


def _cut(value: Any, characters: int, items: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= characters else value[: characters - 1] + "…"
    if isinstance(value, list):
        return [_cut(item, characters, items) for item in value[:items]]
    if isinstance(value, dict):
        return {key: _cut(item, characters, items) for key, item in value.items()}
    return value
