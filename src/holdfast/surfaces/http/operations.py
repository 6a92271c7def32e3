"""Owns carrying declared operations over HTTP: a request as their models, and their answers as bytes."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import parse_qsl, quote

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.core.errors import Invalid
from holdfast.core.model import NoQuery
from holdfast.core.operations import Call, CutShort, Download, EventStream, Operation, UploadedPart
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.core.text.fields import invalid
from holdfast.surfaces.http.asgi import header, parse_json
from holdfast.surfaces.http.authentication import session_cookie
from holdfast.surfaces.http.multipart import read_upload
from holdfast.surfaces.http.protocol.hang_up import while_connected
from holdfast.surfaces.http.sse import EventWriter, ReaderTooSlow

SLOW_READER_SECONDS = 15.0
_NO_QUERY = NoQuery()
_log = logging.getLogger(__name__)
_PLAIN_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._- ")

Authenticate = Callable[[Scope], Awaitable[Principal]]


class HttpCall(Call):
    """A call that came as an HTTP request."""

    __slots__ = ("_authenticate", "_receive", "_scope")

    def __init__(
        self,
        principal: Principal,
        path: Mapping[str, str],
        query: Any,
        body: Any,
        public_url: str,
        scope: Scope,
        receive: Receive,
        authenticate: Authenticate,
    ) -> None:
        super().__init__(principal, path, query, body, public_url)
        self._scope = scope
        self._receive = receive
        self._authenticate = authenticate

    def header(self, name: str) -> str | None:
        return header(self._scope, name.lower().encode())

    def session(self) -> str | None:
        # A JWT has no session, whatever cookie comes along with it.
        return session_cookie(self._scope) if self.principal.proof == "session" else None

    async def stream(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in Request(self._scope, self._receive).stream():
                yield chunk
        except ClientDisconnect:
            raise CutShort("The upload ended too early; nothing was kept of it.") from None

    async def upload(self, write: Callable[[bytes], Awaitable[None]]) -> UploadedPart:
        return await read_upload(self.header("content-type") or "", self.stream(), write)

    async def again(self) -> Principal:
        return await self._authenticate(self._scope)

    def unhurried(self) -> None:
        self._scope.setdefault("state", {})["unhurried"] = True


def query_of(operation: Operation, scope: Scope) -> BaseModel:
    """The query of a request as its operation's model; Invalid where it does not fit."""
    raw = scope.get("query_string", b"")
    if not raw and operation.query is NoQuery:
        return _NO_QUERY
    text = raw.decode("latin-1")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=100, errors="strict")
    except (ValueError, UnicodeDecodeError):
        raise Invalid("The query string could not be read; encode it as UTF-8 percent escapes.") from None
    values: dict[str, Any] = {}
    for name, value in pairs:
        # A name given twice is a list; models say which names may be.
        values[name] = (
            [*values[name], value]
            if isinstance(values.get(name), list)
            else ([values[name], value] if name in values else value)
        )
    try:
        return operation.query.model_validate(values)
    except ValidationError as error:
        raise invalid(error, "The query") from None


def body_of(operation: Operation, raw: bytes) -> BaseModel | None:
    """The body of a request as its operation's model; Invalid where it does not fit."""
    if operation.body is None:
        return None
    value = parse_json(raw) if raw else {}
    try:
        return operation.body.model_validate(value)
    except ValidationError as error:
        raise invalid(error, "The body") from None


def render(answer: BaseModel | Page[Any]) -> bytes:
    """JSON of an answer, with wire names."""
    if isinstance(answer, Page):
        items = b",".join(item.model_dump_json(by_alias=True).encode() for item in answer.items)
        cursor = b"null" if answer.next_cursor is None else b'"' + answer.next_cursor.encode() + b'"'
        return b'{"items":[' + items + b'],"next_cursor":' + cursor + b"}"
    return answer.model_dump_json(by_alias=True).encode()


def download(answer: Download) -> Response:
    """A download as an HTTP response."""
    headers = dict(answer.headers)
    if answer.filename is not None:
        headers["Content-Disposition"] = f"attachment; {_named(answer.filename)}"
    if isinstance(answer.content, bytes):
        return Response(answer.content, media_type=answer.media_type, headers=headers)
    return StreamingResponse(answer.content, media_type=answer.media_type, headers=headers)


async def send_events(stream: EventStream, scope: Scope, receive: Receive, send: Send) -> None:
    """Send events until they end, the client hangs up, or it reads too slowly."""
    writer = EventWriter(send, patience_seconds=SLOW_READER_SECONDS)
    async with while_connected(scope, receive), aclosing(stream.frames) as frames:
        try:
            async for frame in frames:
                await writer.write(frame)
            await writer.end()
        except ReaderTooSlow:
            # Nothing fits into this connection any more, not even a last word: it is cut.
            _log.info("a stream of events was cut: its reader does not read")


def _named(filename: str) -> str:
    if _PLAIN_NAME.issuperset(filename):
        return f'filename="{filename}"'
    return f"filename*=UTF-8''{quote(filename, safe='')}"
