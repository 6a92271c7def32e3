"""Owns what a vector store is: a named group of documents that is searched as one, in OpenAI's shape."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from holdfast.core.errors import Conflict, FieldError, Invalid, NotFound

AttributeValue = str | float | bool
FileStatus = Literal["in_progress", "completed", "failed"]

MAX_NAME = 256
MAX_PAIRS = 16
MAX_KEY = 64
MAX_VALUE = 512
MAX_DAYS = 365
DAY_MILLIS = 86_400_000

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class FileCounts:
    """How many of a store's files are how far."""

    in_progress: int = 0
    completed: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        return self.in_progress + self.completed + self.failed


@dataclass(frozen=True, slots=True)
class VectorStore:
    """A group of documents."""

    id: str
    workspace_id: str
    name: str
    metadata: Mapping[str, str]
    expires_after_days: int | None
    created_by: str
    created_at: int
    last_active_at: int
    counts: FileCounts = FileCounts()
    usage_bytes: int = 0

    @property
    def expires_at(self) -> int | None:
        """When it is no longer searched, unless it is used before."""
        if self.expires_after_days is None:
            return None
        return self.last_active_at + self.expires_after_days * DAY_MILLIS

    def status(self, now: int) -> Literal["expired", "in_progress", "completed"]:
        """Whether all of it can be searched."""
        if self.expires_at is not None and self.expires_at <= now:
            return "expired"
        return "in_progress" if self.counts.in_progress else "completed"


@dataclass(frozen=True, slots=True)
class VectorStoreFile:
    """A document in a store."""

    vector_store_id: str
    document_id: str
    attributes: Mapping[str, AttributeValue]
    created_at: int
    status: FileStatus
    reason_code: str | None
    reason: str | None
    usage_bytes: int
    filename: str


@dataclass(frozen=True, slots=True)
class VectorStoreChange:
    """What of a store is to be different; None leaves it as it is."""

    name: str | None = None
    metadata: Mapping[str, str] | None = None
    expires_after_days: int | None = None
    never_expires: bool = False


@dataclass(frozen=True, slots=True)
class ListPart:
    """Which part of a list is wanted, as OpenAI's lists are asked for."""

    limit: int = 20
    descending: bool = True
    after: str | None = None
    before: str | None = None


class VectorStoreNotFound(NotFound):
    """No such vector store in the workspace."""

    def __init__(self, vector_store_id: str) -> None:
        super().__init__("vector store", vector_store_id)


class VectorStoreFileNotFound(NotFound):
    """The store does not hold that file."""

    def __init__(self, document_id: str) -> None:
        super().__init__("file in this vector store", document_id)


class VectorStoreExpired(Conflict):
    """Nobody used it for as long as it was to be kept."""

    code = "vector_store_expired"

    def __init__(self, vector_store_id: str) -> None:
        super().__init__(f"The vector store {vector_store_id} has expired; give it another expiry to use it again.")


def checked_name(name: str | None) -> str:
    """The name without surplus space; empty for none."""
    text = " ".join(_UNSTORABLE.sub("", name or "").split())
    if len(text) > MAX_NAME:
        raise _invalid("name", f"write at most {MAX_NAME} characters")
    return text


def checked_days(days: int | None) -> int | None:
    """After how many days without use it expires."""
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise _invalid("expires_after.days", f"choose 1 to {MAX_DAYS}")
    return days


def checked_pairs(pairs: Mapping[str, AttributeValue] | None, field: str) -> dict[str, AttributeValue]:
    """Metadata or attributes within their limits."""
    found = dict(pairs or {})
    if len(found) > MAX_PAIRS:
        raise _invalid(field, f"give at most {MAX_PAIRS} pairs")
    for key, value in found.items():
        if not 1 <= len(key) <= MAX_KEY or _UNSTORABLE.search(key):
            raise _invalid(f"{field}.{key[:MAX_KEY]}", f"name it with 1 to {MAX_KEY} characters")
        if isinstance(value, str) and (len(value) > MAX_VALUE or _UNSTORABLE.search(value)):
            raise _invalid(f"{field}.{key}", f"write at most {MAX_VALUE} characters")
    return found


def _invalid(field: str, problem: str) -> Invalid:
    return Invalid("The vector store cannot be so.", fields=[FieldError(field, problem)])
