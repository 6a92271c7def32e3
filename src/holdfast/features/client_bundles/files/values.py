"""Owns what merging means, whatever the file's format: ours is added, and nothing of theirs is lost."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.features.client_bundles.model import Unmergeable


class Exactly(list[Any]):
    """A list that is ours alone: it takes the place of what was there instead of joining it."""


def merged(old: Any, new: Any, path: tuple[str, ...] = ()) -> Any:
    """The value that a merged file must hold. Raises where the two have different shapes."""
    if isinstance(new, Mapping):
        if old is None:
            old = {}
        if not isinstance(old, Mapping):
            raise mismatch(path, "an object")
        found = dict(old)
        for key, value in new.items():
            found[key] = merged(old[key], value, (*path, key)) if key in old else fresh(value)
        return found
    if isinstance(new, Exactly):
        return list(new)
    if isinstance(new, Sequence) and not isinstance(new, str):
        if old is None:
            old = []
        if not isinstance(old, list):
            raise mismatch(path, "a list")
        return [*(merge_item(item, new, path) for item in old), *missing(old, new)]
    if isinstance(old, (Mapping, list)):
        raise mismatch(path, "a plain value")
    return new


def merge_item(item: Any, new: Sequence[Any], path: tuple[str, ...]) -> Any:
    """An item of theirs, with our changes where it is the one that we know by its name."""
    for ours in new:
        if is_same_item(item, ours):
            return merged(item, ours, path)
    return item


def missing(old: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """Our items that the list lacks."""
    return [ours for ours in new if not any(is_same_item(item, ours) for item in old)]


def is_same_item(item: Any, ours: Any) -> bool:
    """Whether two items of a list are the same thing: by name if they have one."""
    if isinstance(item, Mapping) and isinstance(ours, Mapping) and "name" in ours:
        return bool(item.get("name") == ours["name"])
    return bool(item == ours)


def fresh(value: Any) -> Any:
    """A plain copy of ours."""
    if isinstance(value, Mapping):
        return {key: fresh(item) for key, item in value.items()}
    return [fresh(item) for item in value] if isinstance(value, list) else value


def without(value: Any, paths: Sequence[tuple[str, ...]]) -> Any:
    """The value without the settings at these paths."""
    for path in paths:
        value = _without(value, path)
    return value


def _without(value: Any, path: tuple[str, ...]) -> Any:
    if not isinstance(value, Mapping) or path[0] not in value:
        return value
    if len(path) == 1:
        return {key: item for key, item in value.items() if key != path[0]}
    return {key: _without(item, path[1:]) if key == path[0] else item for key, item in value.items()}


def mismatch(path: tuple[str, ...], wanted: str) -> Unmergeable:
    """Their value has another shape than ours needs."""
    return Unmergeable(f"{'.'.join(path) or 'its content'} is not {wanted}; mend it, or take it out of the file.")
