"""Owns what a collection holds: records and the edges between them, vectors, and the limits of both."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.errors import Conflict, FieldError, Invalid, NotFound
from holdfast.core.text import jsontext
from holdfast.core.text.secrets_scan import first_secret_kind

RECORD = "record"
"""What relations and search call a record."""
PASSAGE = "passage"
"""What search calls a text of a collection of vectors."""
DEFAULT = "default"
"""The collection of whoever names none."""
MAX_DATA_BYTES = 64_000
MAX_SOURCE = 2_000
MAX_DERIVED = 20
MAX_TEXT = 20_000
MAX_METADATA_BYTES = 16_000
MAX_DIMENSIONS = 4_096
MAX_COLLECTION_FLOATS = 8_000_000
"""What one collection of given vectors holds: they are compared one by one, and that takes 20 ms then."""
MAX_COLLECTIONS = 1_000

_COLLECTION = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_NAMES = ("name", "title", "label", "subject", "email", "id")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRecord:
    """What somebody wants kept; `id` names the record that it is about already."""

    type: str
    data: Mapping[str, Any]
    collection: str = DEFAULT
    confidence: float | None = None
    source: str = ""
    derived_from: Sequence[str] = ()
    session_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphRecord:
    """One record of a graph."""

    id: str
    workspace_id: str
    collection: str
    type: str
    title: str
    data: Mapping[str, Any]
    confidence: float | None
    source: str
    session_id: str | None
    author: str
    created_at: int
    updated_at: int

    @property
    def text(self) -> str:
        """What search finds it by."""
        return f"{self.type}: " + jsontext.dumps(self.data).decode()


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """A tie between two things, as it was told."""

    start: str
    edge: str
    end: str
    properties: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class EdgeFacts:
    """What is said of a relation beyond what every relation has."""

    relation_id: str
    collection: str
    properties: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Recognised:
    """A record that may be meant, how sure that is from 0 to 1, and by what it was recognised."""

    record: GraphRecord
    score: float
    matched_on: Sequence[str]


@dataclass(frozen=True, slots=True)
class CollectionFacts:
    """A collection and what it holds."""

    name: str
    records: int
    edges: int
    vectors: int
    dimensions: int | None
    """Of its vectors; None where it has none, or texts, which we embed."""
    holds_text: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionVector:
    """A text or a given vector as its collection keeps it."""

    collection: str
    id: str
    text: str = ""
    vector: str = ""
    """Where it is no text: its numbers of length one, as halves (little-endian) in base64."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    author: str = ""
    updated_at: int
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class FoundVector:
    """A vector that is near, and how near: 1 is the same direction."""

    id: str
    score: float
    metadata: Mapping[str, Any]
    text: str | None = None


class RecordNotFound(NotFound):
    """No such record in the workspace."""

    def __init__(self, id: str) -> None:
        super().__init__("record", id[:80])


class VectorNotFound(NotFound):
    """No such vector in the collection."""

    def __init__(self, id: str) -> None:
        super().__init__("vector", id[:80])


class TooManyCollections(Conflict):
    """The workspace has all the collections that it may have."""

    def __init__(self) -> None:
        super().__init__(f"The workspace has {MAX_COLLECTIONS:,} collections; use one of them.")


def checked_collection(name: str | None) -> str:
    """A collection's name; the default one where none is given."""
    if name is None:
        return DEFAULT
    if _COLLECTION.fullmatch(name) is None:
        raise wrong("collection", "small letters, digits, '-' and '_', beginning with a letter, at most 64: people")
    return name


def checked_type(name: str, field: str = "record_type") -> str:
    """A record's type."""
    if _TYPE.fullmatch(name) is None:
        raise wrong(field, "letters, digits and '_', beginning with a letter, at most 64: person")
    return name


def checked_object(given: Mapping[str, Any], field: str, most_bytes: int) -> dict[str, Any]:
    """An object of JSON that both stores take; Invalid for one that is too large or carries a credential."""
    try:
        text = jsontext.dumps(given).decode()
    except (TypeError, ValueError, RecursionError):
        raise wrong(field, "write plain JSON that is not nested without end") from None
    if len(text) > most_bytes:
        raise wrong(field, f"at most {most_bytes:,} bytes of JSON; this has {len(text):,}")
    if "\\u0000" in text or "\\ud" in text.lower():
        _check_storable(given, field)
    kind = first_secret_kind([text])
    if kind is not None:
        raise Invalid(
            f"The {field} carries a credential.",
            fields=[
                FieldError(field, f"this looks like it holds a credential ({kind}); leave it out, nothing was stored")
            ],
            code="secret_refused",
        )
    return dict(given)


def checked_line(text: str, field: str, most: int) -> str:
    """Text that both stores take, not longer than `most`."""
    if len(text) > most:
        raise wrong(field, f"at most {most:,} characters; this has {len(text):,}")
    if _UNSTORABLE.search(text) is not None:
        raise wrong(field, "remove NUL characters and half characters")
    kind = first_secret_kind([text])
    if kind is not None:
        problem = f"this looks like it holds a credential ({kind}); leave it out, nothing was stored"
        raise Invalid(f"The {field} carries a credential.", fields=[FieldError(field, problem)], code="secret_refused")
    return text


def title_of(type: str, data: Mapping[str, Any]) -> str:
    """How people are shown a record."""
    named = (data.get(name) for name in _NAMES)
    title = next((str(value) for value in named if isinstance(value, (str, int, float)) and str(value).strip()), "")
    return " ".join(f"{type} {title}".split())[:300]


def folded(value: object) -> str:
    """A name as it is compared: without case and surplus space."""
    return " ".join(str(value).casefold().split()) if isinstance(value, str) else ""


def wrong(field: str, problem: str) -> Invalid:
    """Invalid for one field."""
    return Invalid(f"{field}: {problem}.", fields=[FieldError(field, problem)])


def _check_storable(value: Any, field: str) -> None:
    if isinstance(value, str) and _UNSTORABLE.search(value) is not None:
        raise wrong(field, "remove NUL characters and half characters")
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check_storable(key, field)
            _check_storable(item, f"{field}.{str(key)[:40]}")
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_storable(item, field)
