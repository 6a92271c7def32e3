"""Owns how a stored thing becomes front matter and back: by the fields that its model declares, each by its type."""

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from holdfast.features.intelligence.model import Ref
from holdfast.features.interchange.formats.fields import MAX_FIELD, Fields, bounded
from holdfast.features.interchange.formats.front import moment

Names = Callable[[str], str]
"""The id that an export writes for one of ours: that of its origin, where it was imported."""
Stored = TypeVar("Stored")


@dataclass(frozen=True)
class RecordForm(Generic[Stored]):
    """How one model is written. A field that it gains later is written too, unless it is named in `left_out`."""

    model: type[Stored]
    left_out: Mapping[str, str]
    """Fields that are not written, and why that loses nothing."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """What a field is called in files, where that is not its name."""
    ids: frozenset[str] = field(default_factory=lambda: frozenset({"id"}))
    """Fields that name a thing of the same export."""
    most: Mapping[str, int] = field(default_factory=dict)
    """How many characters a text may have, where that is not `MAX_FIELD`."""
    parts: "Mapping[str, RecordForm[Any]]" = field(default_factory=dict)
    """Fields whose values have fields of their own, one or several of them, and how these are written."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What a field that a file lacks means, where its model does not say so."""

    @cached_property
    def _written(self) -> list[tuple[Field[Any], Any, str]]:
        hints = get_type_hints(self.model)
        return [
            (each, hints[each.name], self.renamed.get(each.name, each.name))
            for each in fields(self.model)  # type: ignore[arg-type]
            if each.name not in self.left_out
        ]

    def dump(self, value: Stored, names: Names) -> dict[str, Any]:
        """Its fields in their order, without those that say nothing."""
        found: dict[str, Any] = {}
        for each, hint, called in self._written:
            given = getattr(value, each.name)
            if given is None or given in ("", (), {}) or given == each.default:
                continue
            found[called] = self._shown(each.name, hint, given, names)
        return found

    def load(self, front: Fields, **given: Any) -> Stored:
        """The thing from its front matter; `given` are fields that the file says otherwise, or not at all."""
        values = {
            each.name: self._read(front, each, hint, called)
            for each, hint, called in self._written
            if each.name not in given
        }
        return self.model(**values, **given)

    def _shown(self, name: str, hint: Any, given: Any, names: Names) -> Any:
        if name in self.parts:
            form = self.parts[name]
            return [form.dump(each, names) for each in given] if isinstance(given, tuple) else form.dump(given, names)
        if isinstance(given, Ref):
            return {"type": given.type, "id": names(given.id)}
        if name in self.ids:
            return names(given)
        if _is_time(name, hint):
            return moment(given)
        if isinstance(given, Mapping):
            return dict(given)
        return list(given) if isinstance(given, tuple) else given

    def _read(self, front: Fields, each: Field[Any], hint: Any, called: str) -> Any:
        inner, optional = _inner(hint)
        default = self.defaults.get(each.name, None if each.default is MISSING else each.default)
        if optional and not front.has(called):
            return None
        if each.name in self.parts:
            form = self.parts[each.name]
            several = get_origin(inner) is tuple
            return tuple(map(form.load, front.records(called))) if several else form.load(front.record(called))
        if each.name in self.ids:
            return front.id(called)
        if _is_time(each.name, hint):
            return front.time(called)
        if inner is str:
            return front.text(called, default or "", most=self._limit(each.name))
        if inner is bool:
            return front.flag(called)
        if inner is int:
            return front.number(called, default or 0)
        if inner is float:
            return front.fraction(called)
        if inner is Ref:
            record = front.record(called)
            return Ref(record.text("type"), record.id())
        if get_origin(inner) is Mapping:
            return front.mapping(called, most=self._limit(each.name))
        if get_origin(inner) is Literal:
            return front.choice(called, get_args(inner), default)
        if get_origin(inner) is tuple and get_args(inner)[0] is str:
            return tuple(bounded(word, f"a text of {called}", self._limit(each.name)) for word in front.words(called))
        raise TypeError(f"{self.model.__name__}.{each.name} is of a type that exports cannot write: {hint}")

    def _limit(self, name: str) -> int:
        return self.most.get(name, MAX_FIELD)


def _inner(hint: Any) -> tuple[Any, bool]:
    """The type of a field's values, and whether it may be None."""
    if get_origin(hint) in (Union, types.UnionType):
        kinds = [each for each in get_args(hint) if each is not type(None)]
        return (kinds[0] if len(kinds) == 1 else hint), len(kinds) < len(get_args(hint))
    return hint, False


def _is_time(name: str, hint: Any) -> bool:
    """Moments are milliseconds in our models, named so by all of them."""
    return _inner(hint)[0] is int and (name.endswith("_at") or name in ("at", "valid_until"))
