"""Owns a turn on the wire: the events of the loop as server-sent events, or as one whole answer."""

import asyncio
import time
from collections.abc import AsyncIterator

import orjson

from holdfast.core.errors import UpstreamFailed
from holdfast.core.text.sse import PING_SECONDS, framed
from holdfast.engines.llm.assembly import Assembly
from holdfast.engines.llm.model import ChunkEvent, Done, Json, LoopEvent, SideEvent
from holdfast.surfaces.http.asgi import request_id
from holdfast.surfaces.http.endpoint.errors import as_told
from holdfast.surfaces.http.endpoint.events import End, pumped
from holdfast.surfaces.http.protocol.hang_up import while_connected
from holdfast.surfaces.http.sse import EventWriter
from holdfast.surfaces.openai.errors import error_object
from holdfast.surfaces.openai.request import OpenAiRequest

DONE = framed(b"[DONE]")


async def stream_turn(request: OpenAiRequest, events: AsyncIterator[LoopEvent]) -> None:
    """Answer with events as they come; an error after the first is told in the stream."""
    request.unhurried()
    writer = _Writer(request)
    async with while_connected(request.scope, request.receive), pumped(events) as queue:
        while True:
            try:
                async with asyncio.timeout(PING_SECONDS):
                    event = await queue.get()
            except TimeoutError:
                await writer.stream.ping()
                continue
            if not isinstance(event, End):
                await writer.tell(event)
            elif event.problem is None:
                await writer.end()
                return
            else:
                await writer.fail(event.problem)
                return


async def answer_turn(request: OpenAiRequest, events: AsyncIterator[LoopEvent]) -> None:
    """Answer with everything at once; what a stream would have told beside it is in `x_events`."""
    request.unhurried()
    answer = Assembly()
    told: list[Json] = []
    usage: Json = {}
    async with while_connected(request.scope, request.receive), pumped(events) as queue:
        while True:
            event = await queue.get()
            if isinstance(event, ChunkEvent):
                answer.add(event.chunk)
            elif isinstance(event, SideEvent):
                told.append(event.data)
            elif isinstance(event, Done):
                usage = event.usage
            elif isinstance(event, End):
                if event.problem is not None:
                    raise as_told(event.problem, request.scope)
                break
        if answer.empty:
            raise UpstreamFailed("The model gave no answer.")
        whole = answer.completion()
        await request.answer({**whole, "usage": usage or whole.get("usage"), **({"x_events": told} if told else {})})


class _Writer:
    def __init__(self, request: OpenAiRequest) -> None:
        self._request = request
        self.stream = EventWriter(request.send, request.headers)
        self._stamp: Json = {
            "id": f"chatcmpl-{request_id(request.scope)}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": request.connected.model_name,
        }

    async def tell(self, event: LoopEvent) -> None:
        """One event, if it is for the client. All of a stream have one id, whatever came first."""
        if isinstance(event, ChunkEvent):
            if not self.stream.is_started:
                for name in self._stamp:
                    self._stamp[name] = event.chunk.get(name, self._stamp[name])
            await self.stream.write(_data({**event.chunk, "id": self._stamp["id"], "created": self._stamp["created"]}))
        elif isinstance(event, SideEvent):
            # Clients that take every event for a chunk find one without choices, and go on.
            await self.stream.write(_data({**event.data, **self._stamp, "choices": []}))

    async def end(self) -> None:
        """The end that clients wait for."""
        await self.stream.end(DONE)

    async def fail(self, problem: Exception) -> None:
        """Raise what can still be answered; tell the rest in the stream."""
        told = as_told(problem, self._request.scope)
        if not self.stream.is_started:
            raise told
        await self.stream.end(_data({"error": error_object(told)}))


def _data(value: Json) -> bytes:
    return framed(orjson.dumps(value))
