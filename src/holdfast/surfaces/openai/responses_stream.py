"""Owns the stream of a response on the wire: server-sent events that are named by their type."""

from collections.abc import Iterable

import orjson

from holdfast.core.text.sse import framed
from holdfast.engines.llm.model import Json
from holdfast.surfaces.http.asgi import header
from holdfast.surfaces.http.sse import EventWriter
from holdfast.surfaces.openai.request import OpenAiRequest


class ResponseStream(EventWriter):
    """Events of a response, as the client at the other end can read them."""

    def __init__(self, request: OpenAiRequest) -> None:
        super().__init__(request.send, request.headers)
        self._strict = _is_strict(request)

    async def tell(self, events: Iterable[Json]) -> None:
        """Events, in one write."""
        told = [_wrapped(event) if self._strict else event for event in events]
        if told:
            await self.write(b"".join(framed(orjson.dumps(event), event=event["type"]) for event in told))


def _is_strict(request: OpenAiRequest) -> bool:
    """Whether the Node client's `responses.stream` reads: it throws at a type of event that it does not know."""
    scope = request.scope
    return header(scope, b"x-stainless-helper-method") == "stream" and header(scope, b"x-stainless-lang") == "js"


def _wrapped(event: Json) -> Json:
    """An event of our own inside one that every client passes over."""
    if not event["type"].startswith("x_"):
        return event
    return {"type": "keepalive", "sequence_number": event["sequence_number"], "x_event": event}
