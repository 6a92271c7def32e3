"""Owns the management API's one path: match → authenticate → limit → access → parse → handler → render."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from urllib.parse import parse_qsl

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.core.access import Access
from holdfast.core.errors import Conflict, HoldfastError, Invalid, NotFound
from holdfast.core.fields import invalid
from holdfast.core.paging import MAX_LIMIT, Page
from holdfast.core.principal import Principal
from holdfast.core.redaction import redacted_path
from holdfast.surfaces.http.asgi import header, parse_json, problem, read_body, send_bytes, send_problem
from holdfast.surfaces.http.routes import Routes
from holdfast.surfaces.http.site import MethodNotAllowed

MAX_BODY_BYTES = 4 * 1024 * 1024


class Model(BaseModel):
    """What requests and answers are made of; a field nobody knows is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class PageQuery(Model):
    """Where a list begins and how long a page of it is."""

    limit: int = Field(default=50, ge=1, le=MAX_LIMIT, description="How many items at most")
    cursor: str | None = Field(default=None, max_length=1000, description="next_cursor of the page before")


class NoQuery(Model):
    """No query parameters."""


_NO_QUERY = NoQuery()


@dataclass(frozen=True, slots=True)
class Call:
    """One request, parsed: `body` and `query` are the operation's models."""

    principal: Principal
    path: Mapping[str, str]
    query: Any
    body: Any
    request: Request
    again: Callable[[], Awaitable[Principal]]
    """Who asks, as the store knows them now: Unauthenticated once their credential stopped working."""


Handler = Callable[[Call], Awaitable[BaseModel | Page[Any] | Response | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One row of the API. A list operation answers a Page and names its item's model as `answer`."""

    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    access: Access
    """Who may call it; checked before anything is read of the request's body."""
    body: type[BaseModel] | None = None
    """None: the handler reads `call.request` itself (uploads), or there is no body."""
    query: type[BaseModel] = NoQuery
    answer: type[BaseModel] | None = None
    paged: bool = False
    status: int = 200
    upload: str | None = None
    """The media type of a body that the handler reads itself."""
    produces: str = "application/json"
    shows_secret: bool = False
    """Whether the answer has a secret that is shown once: it is not kept for a repeated Idempotency-Key."""


class Admission(Protocol):
    """Who is asking, and whether they may ask now."""

    async def authenticate(self, scope: Scope) -> Principal: ...

    async def limit(self, principal: Principal) -> Mapping[str, str]:
        """Count the request; the headers that tell the client where it stands."""
        ...

    async def denied(self, principal: Principal, action: str, error: HoldfastError) -> None:
        """Record that somebody known was refused."""
        ...


class Idempotency(Protocol):
    """Remembers answers to creates, so that a repeated one is answered and not carried out again."""

    async def begin(self, actor: str, key: str, method: str, path: str, body: bytes) -> tuple[int, bytes] | None: ...

    async def finish(self, actor: str, key: str, status: int, body: bytes) -> None: ...

    async def abandon(self, actor: str, key: str) -> None: ...


class Api:
    """The ASGI application that serves the operations."""

    def __init__(
        self,
        operations: Iterable[Operation],
        admission: Admission,
        idempotency: Idempotency,
        *,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self.operations = tuple(operations)
        self._routes: Routes[Operation] = Routes()
        for operation in self.operations:
            self._routes.add(operation.method, operation.path, operation)
        self._admission = admission
        self._idempotency = idempotency
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            found = self._routes.match(scope["method"], scope["path"])
            if found is None:
                raise _unserved(scope, self._routes.methods(scope["path"]))
            operation, path = found
            principal = await self._admission.authenticate(scope)
            headers = await self._admission.limit(principal)
            try:
                operation.access.check(principal)
                status, body, extra = await self._answer(operation, principal, path, scope, receive, send)
            except HoldfastError as error:
                error.headers = {**headers, **error.headers}
                if error.status == 403:
                    await self._admission.denied(principal, f"{operation.method} {operation.path}", error)
                raise
        except HoldfastError as error:
            await send_problem(scope, send, error)
            return
        if status:
            await send_bytes(send, status, body, headers={**headers, **extra})

    async def _answer(
        self,
        operation: Operation,
        principal: Principal,
        path: Mapping[str, str],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> tuple[int, bytes, Mapping[str, str]]:
        query = query_of(operation, scope)
        raw = b"" if operation.upload else await read_body(scope, receive, self._max_body_bytes)
        again = partial(self._admission.authenticate, scope)
        call = Call(principal, path, query, body_of(operation, raw), Request(scope, receive), again)
        key = header(scope, b"idempotency-key") if operation.status == 201 and not operation.upload else None
        if key is None:
            return await _run(operation, call, scope, receive, send)
        if not 1 <= len(key) <= 200:
            raise Invalid("The header Idempotency-Key has 1 to 200 characters.", code="idempotency_key")
        earlier = await self._idempotency.begin(principal.actor, key, operation.method, scope["path"], raw)
        if earlier is not None:
            return (*earlier, {"Idempotent-Replayed": "true"})
        try:
            status, body, extra = await _run(operation, call, scope, receive, send)
        except BaseException:
            # Shielded: a client that hangs up must not leave its key taken.
            await asyncio.shield(self._idempotency.abandon(principal.actor, key))
            raise
        if operation.shows_secret:
            await self._idempotency.finish(principal.actor, key, _SHOWN.status, orjson.dumps(problem(_SHOWN, "")))
        else:
            await self._idempotency.finish(principal.actor, key, status, body)
        return status, body, extra


_SHOWN = Conflict(
    "This was carried out under the same Idempotency-Key; its secret was shown then and kept nowhere: make another.",
    code="secret_shown",
)


def _unserved(scope: Scope, methods: Sequence[str]) -> HoldfastError:
    if methods:
        error = MethodNotAllowed(f"This path takes {' and '.join(methods)}, not {scope['method'][:20]}.")
        error.headers = {"Allow": ", ".join(methods)}
        return error
    return NotFound("operation", f"{scope['method']} {redacted_path(scope['path'])}"[:200])


async def _run(
    operation: Operation, call: Call, scope: Scope, receive: Receive, send: Send
) -> tuple[int, bytes, Mapping[str, str]]:
    answer = await operation.handler(call)
    if answer is None:
        return 204, b"", {}
    if isinstance(answer, Response):
        await answer(scope, receive, send)
        return 0, b"", {}
    return operation.status, render(answer), {}


def render(answer: BaseModel | Page[Any]) -> bytes:
    """JSON of an answer, with wire names."""
    if isinstance(answer, Page):
        items = b",".join(item.model_dump_json(by_alias=True).encode() for item in answer.items)
        cursor = b"null" if answer.next_cursor is None else b'"' + answer.next_cursor.encode() + b'"'
        return b'{"items":[' + items + b'],"next_cursor":' + cursor + b"}"
    return answer.model_dump_json(by_alias=True).encode()


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
