"""Owns what requests and answers are made of, one model for each thing on every surface, and times as written there."""

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from holdfast.core.clock import iso, parse_moment
from holdfast.core.ids import workspace_id_of
from holdfast.core.paging import MAX_LIMIT

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Thing = TypeVar("_Thing", bound="DataclassInstance")
_MAX_TIME_CHARACTERS = 64


class Model(BaseModel):
    """What a request brings; a field nobody knows is refused."""

    # Built at first use: a command uses few of the models that it imports.
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)

    def into(self, kind: type[_Thing], **more: Any) -> _Thing:
        """The dataclass of that kind with the fields of this model that it knows; `more` for the others."""
        known = type(self).model_fields
        same = {each.name: getattr(self, each.name) for each in fields(kind) if each.name in known}
        return kind(**{**same, **more})


class Answer(Model):
    """What an answer shows of a domain object: the attributes of the same names, read off it."""

    # What an answer shows by default it always shows.
    model_config = ConfigDict(from_attributes=True, json_schema_serialization_defaults_required=True)

    @classmethod
    def of(cls, thing: object, **more: Any) -> Self:
        """The answer that shows a thing; `more` for what the thing itself does not know."""
        return cls.model_validate(_With(thing, more) if more else thing)


class PageQuery(Model):
    """Where a list begins and how long a page of it is."""

    limit: int = Field(default=50, ge=1, le=MAX_LIMIT, description="How many items at most")
    cursor: str | None = Field(default=None, max_length=1000, description="next_cursor of the page before")


class NoQuery(Model):
    """No query parameters."""


class _With:
    """A thing with attributes beside its own."""

    __slots__ = ("_more", "_thing")

    def __init__(self, thing: object, more: dict[str, Any]) -> None:
        self._thing = thing
        self._more = more

    def __getattr__(self, name: str) -> Any:
        more = self._more
        return more[name] if name in more else getattr(self._thing, name)


def _shown(value: object) -> object:
    return iso(value) if isinstance(value, int) else value


def _read(value: object, info: ValidationInfo, *, ahead: bool = False) -> object:
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "Input should be a valid string")
    if len(value) > _MAX_TIME_CHARACTERS:
        problem = "String should have at most {max_length} characters"
        raise PydanticCustomError("string_too_long", problem, {"max_length": _MAX_TIME_CHARACTERS})
    return parse_moment(value, info.field_name or "time", ahead=ahead)


def _read_ahead(value: object, info: ValidationInfo) -> object:
    return _read(value, info, ahead=True)


def _split(value: object) -> object:
    """Words that were repeated or separated by commas."""
    values: Iterable[object] = value if isinstance(value, list) else [value]
    return [word.strip() for item in values if isinstance(item, str) for word in item.split(",") if word.strip()]


_ISO = {
    "type": "string",
    "maxLength": _MAX_TIME_CHARACTERS,
    "description": "ISO 8601 date or time, or 7d for so long ago",
}
_ISO_AHEAD = {**_ISO, "description": "ISO 8601 date or time, or 90d for so long from now"}

Time = Annotated[str, BeforeValidator(_shown)]
"""A time in an answer: milliseconds in the domain object, ISO 8601 in UTC on the wire."""

Moment = Annotated[
    int | None, BeforeValidator(_read), WithJsonSchema({"anyOf": [_ISO, {"type": "null"}]}, mode="validation")
]
"""A time in a request: ISO 8601 or a span such as 7d on the wire, milliseconds for the service; empty is left out."""

Deadline = Annotated[
    int | None,
    BeforeValidator(_read_ahead),
    WithJsonSchema({"anyOf": [_ISO_AHEAD, {"type": "null"}]}, mode="validation"),
]
"""The same for what is to come: 90d is so long from now."""

Sorted = Annotated[list[str], BeforeValidator(sorted)]
"""A set in the domain object, in one order on the wire."""

OrNull = Annotated[str | None, BeforeValidator(lambda value: value or None)]
"""Text that the domain keeps empty where there is none; null on the wire."""

Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
"""Text that both stores take."""

WorkspaceId = Annotated[Text, AfterValidator(lambda value: workspace_id_of(value) or value)]
"""A workspace in either spelling; the service gets its id."""

Words = Annotated[list[str], BeforeValidator(_split)]
"""Words in a query, repeated or separated by commas."""
