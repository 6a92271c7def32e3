"""Owns what a question and its answer are: Markdown whose numbers are sources that were looked at."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.errors import FieldError, Invalid

MAX_QUESTION = 4_000
OPERATION = "ask"
"""What the usage log calls a question."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A source of an answer. The address names it for good; a URL is there where the repository's host has one."""

    number: int
    kind: str
    """commit, file, directory, pull_request, issue, release, discussion or tag."""
    repository: str
    """The slug."""
    address: str
    """`slug@1a2b3c4`, `slug#12`, `slug:src/app.py#L10-L40`."""
    title: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer. Every statement in it has a citation that holds; what had none is left out, and counted."""

    markdown: str
    citations: Sequence[Citation]
    dropped: int
    """Citations that did not hold."""
    model: str
    tokens_in: int = 0
    tokens_out: int = 0
    removed: int = 0
    """Statements that no source supports."""
    note: str = ""
    """Why the model's own answer is not the one given; empty where it is, and where there is no model."""
    waiting: int = 0
    """Passages of the repositories that wait for their vector, and were found by their words only."""


def checked_question(question: str) -> str:
    """The question without spaces around it, or Invalid."""
    tidy = question.strip()
    if not 1 <= len(tidy) <= MAX_QUESTION:
        problem = f"ask in 1 to {MAX_QUESTION:,} characters"
        raise Invalid("The question cannot be asked so.", fields=[FieldError("question", problem)])
    return tidy
