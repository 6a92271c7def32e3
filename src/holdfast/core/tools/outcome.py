"""Owns what a tool call gave: text to read, the same as data, and what a turn tells of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Spilled:
    """Where the whole of a large result was put."""

    artifact_id: str
    uri: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Pause:
    """A tool that waits for a person: the question, which ends this turn and is answered later."""

    correlation_id: str
    question: Json
    text: str = ""
    """The question in words alone, for whoever sees nothing but the answer's text."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call gave: text to read, and for clients that read data the same as JSON."""

    text: str
    data: Json = field(default_factory=dict)
    spilled: Spilled | None = None
    """Where the whole is, when text and data had to be shortened."""
    served: Json | None = None
    """The answer of a tool that speaks MCP itself, as the protocol has it."""
    events: Sequence[Json] = ()
    """What whoever watches the turn is told of it."""
    sources: int = 0
    """How many sources it read."""
    untrusted: bool = False
    """Whether the text came from the web, a repository or a document: data, never instructions."""
    pause: Pause | None = None
    also: Sequence["AnsweredCall"] = ()
    """Other calls that this one answered on its way: a search has read pages that could be fetched next."""


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A call and what it gave."""

    name: str
    arguments: Mapping[str, Any]
    outcome: Outcome
