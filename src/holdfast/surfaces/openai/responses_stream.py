"""Owns the stream of a response on the wire: server-sent events that are named by their type."""

from collections.abc import Iterable

import orjson

from holdfast.engines.llm.model import Json
from holdfast.surfaces.http.asgi import header
from holdfast.surfaces.openai.request import OpenAiRequest
from holdfast.surfaces.openai.turns import PING, STREAM_HEADERS


class EventStream:
    """Begun with its first byte; until then a request can still be refused with a status."""

    def __init__(self, request: OpenAiRequest) -> None:
        self._request = request
        self._strict = _is_strict(request)
        self.started = False

    async def tell(self, events: Iterable[Json]) -> None:
        """Events, in one write."""
        told = [_wrapped(event) if self._strict else event for event in events]
        data = b"".join(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), orjson.dumps(event)) for event in told)
        if data:
            await self._write(data, more=True)

    async def ping(self) -> None:
        """Say that the answer is still being made."""
        await self._write(PING, more=True)

    async def end(self) -> None:
        """Nothing more comes: the last event said so already."""
        await self._write(b"", more=False)

    async def _write(self, data: bytes, *, more: bool) -> None:
        if not self.started:
            self.started = True
            limits = [(name.lower().encode(), value.encode("latin-1")) for name, value in self._request.headers.items()]
            start = {"type": "http.response.start", "status": 200, "headers": [*STREAM_HEADERS, *limits]}
            await self._request.send(start)
        await self._request.send({"type": "http.response.body", "body": data, "more_body": more})


def _is_strict(request: OpenAiRequest) -> bool:
    """Whether the Node client's `responses.stream` reads: it throws at a type of event that it does not know."""
    scope = request.scope
    return header(scope, b"x-stainless-helper-method") == "stream" and header(scope, b"x-stainless-lang") == "js"


def _wrapped(event: Json) -> Json:
    """An event of our own inside one that every client passes over."""
    if not event["type"].startswith("x_"):
        return event
    return {"type": "keepalive", "sequence_number": event["sequence_number"], "x_event": event}
