"""Owns what a scripted model says, whatever the wire: one tool call after another, then a sentence."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Step:
    """A call of one of the product's tools, by its own name."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass
class Script:
    """The steps in order. What clients asked and sent back is kept for the test to look at."""

    steps: Sequence[Step]
    final: str = "All done."
    results: dict[int, str] = field(default_factory=dict)
    """What the client reported as each step's result."""
    offered: set[str] = field(default_factory=set)
    """Every tool that a client ever offered the model."""
    texts: list[str] = field(default_factory=list)
    """Every request's body, for what should stand somewhere in it."""
    problems: list[str] = field(default_factory=list)
    """Requests that the real API would have refused."""

    def heard(self, body: str, tools: Sequence[str], results: Sequence[str]) -> None:
        self.texts.append(body)
        self.offered.update(tools)
        self.results.update(enumerate(results))

    def choose(self, tools: Sequence[str], done: int) -> tuple[str, Mapping[str, Any]] | None:
        """The client's name of the next tool, and its arguments; None when it is time for the last sentence.

        A side request (a title, a summary) does not offer the tool: it gets the sentence too.
        """
        if done >= len(self.steps):
            return None
        wanted = _plain(self.steps[done].tool)
        # A client's own `write` comes before its `todowrite`.
        for name in sorted(tools, key=lambda name: _plain(name) != wanted):
            if _plain(name).endswith(wanted):
                return name, self.steps[done].arguments
        return None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower())
