"""Owns the filters over file attributes that a vector store search may carry, as OpenAI writes them."""

import operator
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast.features.documents.vector_stores.model import AttributeValue

MAX_FILTERS = 50
Scalar = str | float | bool

_ORDERED: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


class Comparison(BaseModel):
    """One attribute against a value."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    key: str = Field(max_length=64)
    value: Scalar | list[Scalar]

    def allows(self, attributes: Mapping[str, AttributeValue]) -> bool:
        """Whether a file with these attributes passes; an attribute it lacks passes only a negation."""
        have = attributes.get(self.key)
        if self.type in ("in", "nin"):
            among = have is not None and any(_same(have, each) for each in _values(self.value))
            return among == (self.type == "in")
        if self.type in ("eq", "ne"):
            same = have is not None and not isinstance(self.value, list) and _same(have, self.value)
            return same == (self.type == "eq")
        comparable = (isinstance(have, str) and isinstance(self.value, str)) or (_number(have) and _number(self.value))
        return comparable and _ORDERED[self.type](have, self.value)


class Compound(BaseModel):
    """Several filters, all or any of which must pass."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: Literal["and", "or"]
    filters: list["Filter"] = Field(min_length=1, max_length=MAX_FILTERS)

    def allows(self, attributes: Mapping[str, AttributeValue]) -> bool:
        """Whether a file with these attributes passes."""
        passed = (each.allows(attributes) for each in self.filters)
        return all(passed) if self.type == "and" else any(passed)


Filter = Annotated[Comparison | Compound, Field(discriminator="type")]
Compound.model_rebuild()


def _values(value: Scalar | list[Scalar]) -> list[Scalar]:
    return value if isinstance(value, list) else [value]


def _same(have: Scalar, wanted: Scalar) -> bool:
    """Equal, where True is not 1."""
    return isinstance(have, bool) == isinstance(wanted, bool) and have == wanted


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
