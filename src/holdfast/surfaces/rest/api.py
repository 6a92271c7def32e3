"""Owns the management API's one path: match → authenticate → limit → access → parse → handler → render."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import orjson
from starlette.types import Receive, Scope, Send

from holdfast.core.errors import Conflict, HoldfastError, Invalid, NotFound
from holdfast.core.operations import Call, Download, EventStream, Operation
from holdfast.core.principal import Principal
from holdfast.core.text.redaction import redacted_path
from holdfast.surfaces.http.asgi import header, problem, read_body, send_bytes, send_problem
from holdfast.surfaces.http.operations import HttpCall, body_of, download, query_of, render, send_events
from holdfast.surfaces.http.routes import Routes
from holdfast.surfaces.http.site import MethodNotAllowed

MAX_BODY_BYTES = 4 * 1024 * 1024
_NO_STORE = {"Cache-Control": "no-store"}


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
        public_url: str = "",
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self.operations = tuple(operations)
        self._routes: Routes[Operation] = Routes()
        for operation in self.operations:
            self._routes.add(operation.method, operation.path, operation)
        self._admission = admission
        self._idempotency = idempotency
        self._public_url = public_url
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            found = self._routes.match(scope["method"], scope["path"], scope.get("raw_path") or b"")
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
        body = body_of(operation, raw)
        again = self._admission.authenticate
        call = HttpCall(principal, path, query, body, self._public_url, scope, receive, again)
        key = header(scope, b"idempotency-key") if operation.status == 201 and not operation.upload else None
        if key is None:
            return await _run(operation, call, scope, receive, send)
        if not 1 <= len(key) <= 200:
            raise Invalid("The header Idempotency-Key has 1 to 200 characters.", code="idempotency_key")
        earlier = await self._idempotency.begin(principal.actor, key, operation.method, scope["path"], raw)
        if earlier is not None:
            return (*earlier, {"Idempotent-Replayed": "true"})
        try:
            status, answer, extra = await _run(operation, call, scope, receive, send)
        except BaseException:
            # Shielded: a client that hangs up must not leave its key taken.
            await asyncio.shield(self._idempotency.abandon(principal.actor, key))
            raise
        if operation.shows_secret:
            await self._idempotency.finish(principal.actor, key, _SHOWN.status, orjson.dumps(problem(_SHOWN, "")))
        else:
            await self._idempotency.finish(principal.actor, key, status, answer)
        return status, answer, extra


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
    if isinstance(answer, Download):
        await download(answer)(scope, receive, send)
        return 0, b"", {}
    if isinstance(answer, EventStream):
        await send_events(answer, scope, receive, send)
        return 0, b"", {}
    return operation.status, render(answer), _NO_STORE if operation.no_store else {}
