"""Running one turn against the fake upstream, and tools that do nothing slowly or quickly."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.tools.outcome import Outcome
from holdfast.engines.llm.loop import Loop
from holdfast.engines.llm.model import (
    CallEvent,
    ChunkEvent,
    Done,
    LanguageModel,
    LoopEvent,
    LoopRequest,
    LoopTool,
    SideEvent,
)
from holdfast.engines.llm.remote.connection import UpstreamConnections
from holdfast.engines.llm.remote.upstream import Upstream, UpstreamSpec
from tests.fakes.llm.model import KEY, FakeModel, Turn, model
from tests.support.access.credentials import credential
from tests.support.event_grammar import check

Json = dict[str, Any]
Run = Callable[[Json], Awaitable[Outcome]]
ASK: Json = {"model": "any", "stream": True, "messages": [{"role": "user", "content": "What is it?"}]}


@dataclass
class Heard:
    """Everything that a turn told."""

    events: list[LoopEvent] = field(default_factory=list)

    @property
    def done(self) -> Done:
        last = self.events[-1]
        assert isinstance(last, Done)
        return last

    @property
    def wire(self) -> list[Json]:
        """What a client reads, in order."""
        return [
            event.chunk if isinstance(event, ChunkEvent) else event.data
            for event in self.events
            if isinstance(event, (ChunkEvent, SideEvent))
        ]

    @property
    def text(self) -> str:
        return "".join(
            choice["delta"].get("content") or ""
            for event in self.events
            if isinstance(event, ChunkEvent)
            for choice in event.chunk["choices"]
        )

    @property
    def side(self) -> list[str]:
        return [event.data["type"] for event in self.events if isinstance(event, SideEvent)]

    @property
    def calls(self) -> list[CallEvent]:
        return [event for event in self.events if isinstance(event, CallEvent)]


def tool(name: str, run: Run | str = "ok", *, research: bool = True, **more: Any) -> LoopTool:
    """A tool that answers with a text, or runs what it is given."""

    async def answer(arguments: Json) -> Outcome:
        assert isinstance(run, str)
        return Outcome(run, sources=1)

    parameters = {"type": "object", "properties": {"query": {"type": "string"}}}
    event = more.pop("event", "x_research.searching" if research else None)
    chosen = answer if isinstance(run, str) else run
    return LoopTool(name, f"Does {name}.", parameters, chosen, event=event, research=research, **more)


def client_tool(name: str) -> Json:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


@asynccontextmanager
async def upstream(*script: Turn) -> AsyncIterator[tuple[FakeModel, Upstream]]:
    """A fake and the way to it; at the end it must have refused nothing."""
    connections = UpstreamConnections()
    async with model(*script) as fake:
        yield fake, Upstream(UpstreamSpec(fake.url, "fake-model", credential(KEY, fake.url)), connections)
        await connections.aclose()
    assert fake.refused == []


async def hear(asked: LanguageModel, tools: Sequence[LoopTool] = (), body: Json = ASK, **more: Any) -> Heard:
    """Run a turn to its end; the whole stream has to be grammatical."""
    heard = Heard()
    async for event in Loop().run(asked, LoopRequest(body, tools, **more)):
        heard.events.append(event)
    check(heard.wire)
    return heard
