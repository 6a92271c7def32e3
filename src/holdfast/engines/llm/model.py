"""Owns the words that the loop, the models and their callers share: requests, tools and events."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.core.tools.outcome import Outcome, Pause

Json = dict[str, Any]
Heard = Json | list[str]
"""A chunk, or the texts of some in a row that have nothing else to tell, as most of them."""

ROUNDS = 5
TOOL_SECONDS = 15.0
"""How long a call may take in a turn."""


class LanguageModel(Protocol):
    """A language model: a Chat Completions body in, `chat.completion.chunk` objects out.

    The last chunk carries `usage` where the model tells it. Closing the iterator ends the work upstream.
    """

    @property
    def name(self) -> str: ...

    def stream(self, body: Json) -> AsyncIterator[Json]: ...


@dataclass(frozen=True, slots=True)
class LoopTool:
    """A tool that runs here, as a model sees it."""

    name: str
    description: str
    parameters: Json
    run: Callable[[Json], Awaitable[Outcome]]
    event: str | None = None
    """The type of the event that says a call begins, such as `x_research.searching`."""
    research: bool = False
    """Whether it counts as research, and tells `x_research.result`."""


async def _nobody(name: str) -> None:
    """Nobody is told of calls of what is not there."""


@dataclass(frozen=True, slots=True)
class LoopRequest:
    """One turn: the client's body, with the tools that run here beside the client's own."""

    body: Json
    tools: Sequence[LoopTool]
    max_rounds: int = ROUNDS
    turn_away: Callable[[str], Awaitable[None]] = _nobody
    """Told the name when the model calls a tool that is not among these."""


@dataclass(slots=True)
class Tally:
    """Tokens over every round of a turn."""

    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class ChunkEvent:
    """A chunk for the client, of the final answer or of calls that are the client's to make."""

    chunk: Json


@dataclass(frozen=True, slots=True)
class SideEvent:
    """An `x_…` event: `data` has `type` and its fields."""

    data: Json


@dataclass(frozen=True, slots=True)
class CallEvent:
    """A server-side call that finished, for surfaces that show calls as items."""

    call_id: str
    name: str
    arguments: str
    outcome: Outcome
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a turn: the assistant's whole message and what it took. `rounds` counts rounds of tool calls."""

    message: Json
    finish_reason: str
    tally: Tally = field(default_factory=Tally)
    rounds: int = 0
    sources: int = 0
    elapsed_ms: int = 0
    pause: Pause | None = None
    pending_call_id: str | None = None
    """The call that the pause's answer belongs to."""
    added: Sequence[Json] = ()
    """What the model said and saw since the client's messages, while tools ran here: the calls and what they gave.
    Where the turn waits (for a person, or for the client's own tools), the last call of it has no result yet: to go on,
    send the client's messages, these, and a tool message for each call that waits."""
    usage: Json = field(default_factory=dict)
    """Usage over every round, in the upstream's own fields."""
    answers: Sequence["Done"] = ()
    """Where several were asked for, each by itself; the rest of this is the first one's, with the sums of all."""


LoopEvent = ChunkEvent | SideEvent | CallEvent | Done
