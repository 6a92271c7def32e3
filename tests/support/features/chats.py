"""Owns a model that says what a test wrote, and turns taken with it."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from holdfast.core.principal import Principal
from holdfast.engines.llm.model import ChunkEvent, Done, LoopEvent, SideEvent
from holdfast.features.chat.model import Served
from tests.support.world import World

Json = dict[str, Any]


def call(name: str, id: str = "call_1", **arguments: Any) -> Json:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


class ScriptedModel:
    """A `Model` that answers with the given turns in order: a text, one call, several calls, or an error."""

    name = "scripted"

    def __init__(self, *turns: str | Json | Sequence[Json] | Exception) -> None:
        self.turns: list[str | Json | Sequence[Json] | Exception] = list(turns)
        self.bodies: list[Json] = []

    async def stream(self, body: Json) -> AsyncIterator[Json]:
        self.bodies.append(json.loads(json.dumps(body)))
        turn = self.turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        if isinstance(turn, str):
            for word in turn.split(" "):
                yield self._chunk({"content": word if word == turn.split(" ")[0] else f" {word}"})
            yield self._chunk({}, "stop")
        else:
            calls = [turn] if isinstance(turn, dict) else turn
            indexed = [{"index": index, **each} for index, each in enumerate(calls)]
            yield self._chunk({"tool_calls": indexed})
            yield self._chunk({}, "tool_calls")
        yield {**self._chunk({}), "choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 10}}

    @property
    def seen(self) -> list[Json]:
        """The messages of the last request."""
        return list(self.bodies[-1]["messages"])

    @property
    def offered(self) -> list[str]:
        """The tools of the last request."""
        return [tool["function"]["name"] for tool in self.bodies[-1].get("tools", ())]

    def _chunk(self, delta: Json, finish_reason: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


class Taken:
    """A turn that was taken."""

    def __init__(self, events: list[LoopEvent]) -> None:
        self.events = events

    @property
    def text(self) -> str:
        chunks = [event.chunk for event in self.events if isinstance(event, ChunkEvent)]
        return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])

    @property
    def sides(self) -> list[Json]:
        return [event.data for event in self.events if isinstance(event, SideEvent)]

    @property
    def types(self) -> list[str]:
        return [side["type"] for side in self.sides]

    def side(self, type: str) -> Json:
        return next(side for side in self.sides if side["type"] == type)

    @property
    def metadata(self) -> Json:
        return self.side("x_chat.metadata")

    @property
    def done(self) -> Done:
        last = self.events[-1]
        assert isinstance(last, Done)
        return last


def said(*words: str) -> list[Json]:
    """A conversation that a person begins."""
    return [{"role": "assistant" if turn % 2 else "user", "content": text} for turn, text in enumerate(words)]


async def take(
    world: World,
    model: ScriptedModel,
    messages: list[Json],
    *,
    chat_id: str | None = "c1",
    principal: Principal | None = None,
    disabled: frozenset[str] = frozenset(),
    workspace_id: str | None = None,
    **body: Any,
) -> Taken:
    """One turn to its end."""
    served = Served("default", model, disabled, lambda tally: tally.total / 1000)
    turn = world.services.chat_turns.turn(
        principal or world.owner,
        world.start.project_id,
        workspace_id or world.start.workspace_id,
        served,
        {"model": "m", "messages": messages, **body},
        chat_id,
    )
    return Taken([event async for event in turn])
