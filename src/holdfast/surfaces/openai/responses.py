"""Owns `/responses`: the question goes to the endpoint's model as a chat, the answer comes back as items and events."""

import asyncio
from collections import deque
from urllib.parse import parse_qs

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.principal import Principal
from holdfast.core.text.sse import PING_SECONDS
from holdfast.engines.llm.model import Done, LoopEvent
from holdfast.features.responses.events import ResponseEvents
from holdfast.features.responses.model import ResponseRequest
from holdfast.features.responses.service import ResponseService
from holdfast.surfaces.http.endpoint.errors import as_told
from holdfast.surfaces.http.endpoint.events import End, T, TurnTaker, pumped
from holdfast.surfaces.http.protocol.hang_up import while_connected
from holdfast.surfaces.openai.chat import chat_of
from holdfast.surfaces.openai.errors import error_object
from holdfast.surfaces.openai.request import OpenAiRequest
from holdfast.surfaces.openai.responses_stream import ResponseStream

Queue = asyncio.Queue[LoopEvent | End]


class Responses:
    """Makes, shows, cancels and deletes responses."""

    def __init__(self, service: ResponseService, turns: TurnTaker) -> None:
        self._service = service
        self._turns = turns

    async def create(self, request: OpenAiRequest) -> None:
        """One response: streamed, whole, or begun in the background."""
        body = await request.json()
        chat_id = chat_of(request, body)
        if chat_id is not None:
            # Kept with the request: a background job has no headers to look at.
            body = {**body, "x_chat_id": chat_id}
        endpoint = request.connected.endpoint.name
        asked = await self._service.ask(request.principal, request.project_id, request.workspace_id, endpoint, body)
        if asked.background:
            begun = await self._service.begin(request.principal, asked)
            await (self._follow(request, asked.id, -1) if asked.streamed else request.answer(begun))
            return
        made = self._service.events(asked)
        turn = self._turns.turn(
            request.principal,
            asked.project_id,
            asked.workspace_id,
            request.connected,
            asked.translated().body,
            chat_id,
        )
        request.unhurried()
        async with while_connected(request.scope, request.receive), pumped(turn) as queue:
            if body.get("stream"):
                await self._stream(request, asked, made, queue)
            else:
                await self._whole(request, asked, made, queue)

    async def get(self, request: OpenAiRequest) -> None:
        """A stored response, or its events where it is made in the background."""
        asked = parse_qs(request.scope.get("query_string", b"").decode("latin-1"))
        stream, after = asked.get("stream", ["false"])[-1].lower(), asked.get("starting_after", [None])[-1]
        if stream not in ("true", "false"):
            raise _wrong("stream", "use true or false")
        if after is not None and (stream == "false" or not after.isdigit()):
            raise _wrong("starting_after", "write the number of an event, with stream=true")
        if stream == "true":
            await self._follow(request, request.path["response_id"], -1 if after is None else int(after))
            return
        found = await self._service.get(*_at(request))
        await request.answer(found.response)

    async def input_items(self, request: OpenAiRequest) -> None:
        """What a stored response was asked with."""
        found = await self._service.get(*_at(request))
        await request.answer_list(found.asked.items[::-1])

    async def cancel(self, request: OpenAiRequest) -> None:
        """Stop a background response."""
        await request.answer(await self._service.cancel(*_at(request)))

    async def delete(self, request: OpenAiRequest) -> None:
        """Forget a response."""
        await self._service.delete(*_at(request))
        await request.answer({"id": request.path["response_id"], "object": "response", "deleted": True})

    async def _follow(self, request: OpenAiRequest, response_id: str, after: int) -> None:
        request.unhurried()
        stream = ResponseStream(request)
        place = (request.principal, request.project_id, request.workspace_id, response_id)
        async with (
            while_connected(request.scope, request.receive),
            pumped(self._service.follow(*place, after)) as queue,
        ):
            while not isinstance(event := await _next(queue, stream), End):
                await stream.tell([event])
            if event.problem is not None:
                problem = as_told(event.problem, request.scope)
                if not stream.is_started:
                    raise problem
                error = error_object(problem)
                await stream.tell([{**error, "type": "error", "sequence_number": after + 1}])
            await stream.end()

    async def _stream(self, request: OpenAiRequest, asked: ResponseRequest, made: ResponseEvents, queue: Queue) -> None:
        stream = ResponseStream(request)
        begun = False
        while True:
            event = await _next(queue, stream)
            if not isinstance(event, End):
                # What cannot be answered at all is refused with its status: nothing is told before the first event.
                opening = [] if begun else [*made.begin()]
                begun = True
                told = [*opening, *made.hear(event)]
                if isinstance(event, Done):
                    # Kept before it is told: the client may go on from it at once.
                    await self._service.keep(request.principal, asked, made.response)
                await stream.tell(told)
                continue
            if event.problem is not None:
                problem = as_told(event.problem, request.scope)
                if not stream.is_started:
                    raise problem
                await stream.tell([*([] if begun else made.begin()), *made.fail(problem)])
            await stream.end()
            return

    async def _whole(self, request: OpenAiRequest, asked: ResponseRequest, made: ResponseEvents, queue: Queue) -> None:
        while not isinstance(event := await queue.get(), End):
            deque(made.hear(event), maxlen=0)
        if event.problem is not None:
            raise as_told(event.problem, request.scope)
        await self._service.keep(request.principal, asked, made.response)
        await request.answer({**made.response, **({"x_events": made.told} if made.told else {})})


def _at(request: OpenAiRequest) -> tuple[Principal, str, str | None, str]:
    """Who asks for which response, and where it should be."""
    return request.principal, request.project_id, request.workspace_id, request.path["response_id"]


def _wrong(field: str, problem: str) -> Invalid:
    return Invalid("The response can't be shown.", fields=[FieldError(field, problem)])


async def _next(queue: asyncio.Queue[T], stream: ResponseStream) -> T:
    while True:
        try:
            async with asyncio.timeout(PING_SECONDS):
                return await queue.get()
        except TimeoutError:
            await stream.ping()
