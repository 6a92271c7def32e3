"""Owns how a session's sandbox is served its model: our own endpoints, of which the session's one alone passes.

What passes is a question to a model and nothing else. Server-side tools would be a way out of the sandbox that no gate
sees, so requests are relieved of them.
"""

import asyncio
import contextlib
import hmac
import socket
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import orjson
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.core.errors import Forbidden, HoldfastError, Invalid, NotFound, Unauthenticated
from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.core.text.jsontext import loads_strange
from holdfast.features.agents.runs.models import ModelAccess
from holdfast.features.audit.service import Audit
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.keys.tokens import Tokens
from holdfast.features.identity.sessions.sign_in import SignIn
from holdfast.features.usage.limiter import Limiter
from holdfast.features.usage.service import Usage
from holdfast.surfaces.http.asgi import header, send_problem
from holdfast.surfaces.http.authentication import Authenticator
from holdfast.surfaces.http.endpoint.wires import EndpointWires
from holdfast.surfaces.http.gate import Gate
from holdfast.surfaces.http.protocol.proxies import Proxies
from holdfast.surfaces.http.telemetry.metrics import Metrics

_ASKED = frozenset({"/chat/completions", "/responses", "/messages", "/messages/count_tokens"})
_MODELS, _NAMED = "/models", "/models/"
_NAME = "holdfast.model"
"""Where a request's scope has the model that is asked for by name."""
_DROPPED = frozenset(
    {"web_search_options", "mcp_servers", "container", "background", "conversation", "previous_response_id"}
)
"""Members of a request that would have the server, or the upstream, do more than answer."""
_OWN_TOOLS = frozenset({"function", "custom", "local_shell", "shell", "apply_patch", "namespace"})
_OWN_KINDS = ("bash_", "text_editor_", "memory_", "tool_search_tool_")
"""Tools of the agent's own, which it runs itself in its sandbox."""
_FORWARDED = frozenset({b"content-type", b"accept", b"anthropic-version", b"anthropic-beta", b"user-agent", b"host"})
_STOP_SECONDS = 2.0


class BudgetSpent(Forbidden):
    """The session has no tokens left."""

    code = "budget_exceeded"


class EndpointDoor:
    """Serves endpoints to sandboxes, each session through a listener of its own."""

    def __init__(self, settings: Settings, parts: Parts) -> None:
        self._settings = settings
        self._parts = parts

    def service(self, access: ModelAccess) -> "DoorService":
        """Answers one session's requests to its model, and nothing else."""
        only = _Only(self._endpoints, access, self._settings.max_chat_bytes)
        return DoorService(self._settings, only, f"/{access.project_id}/{access.endpoint}/v1")

    @cached_property
    def _endpoints(self) -> ASGIApp:
        # Imported when the first session starts: few commands ever do.
        from holdfast.server.endpoints.anthropic import build_anthropic
        from holdfast.server.endpoints.openai import build_openai

        parts, settings = self._parts, self._settings
        authenticator = Authenticator(
            parts[Keys],
            parts[SignIn],
            parts[Tokens],
            parts[Limiter],
            parts[Audit],
            settings.requests_per_minute,
            usage=parts[Usage],
        )
        return EndpointWires(
            build_openai(settings, parts, authenticator), build_anthropic(settings, parts, authenticator)
        )


class DoorService:
    """One listener in one sandbox."""

    def __init__(self, settings: Settings, inside: ASGIApp, base: str) -> None:
        self._settings = settings
        self._inside = inside
        self._base = base
        self._server: _QuietServer | None = None
        self._serving: asyncio.Task[None] | None = None

    async def open(self, listener: socket.socket) -> None:
        """Begin to answer on the sandbox's listening socket."""
        from holdfast.server.lifecycle import configuration

        gate = _Ways(self._inside, self._settings, self._base)
        self._server = _QuietServer(configuration(self._settings, gate))
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        listening = asyncio.create_task(self._server.listening.wait())
        try:
            await asyncio.wait((listening, self._serving), return_when=asyncio.FIRST_COMPLETED)
            if self._serving.done():
                # It never began; why is its error.
                self._serving.result()
        finally:
            listening.cancel()

    async def close(self) -> None:
        """Break everything off."""
        if self._server is None or self._serving is None:
            return
        self._server.should_exit = True
        self._server.force_exit = True
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await asyncio.shield(self._serving)
        except TimeoutError:
            self._serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._serving


class _QuietServer(uvicorn.Server):
    """Leaves the process's signals alone, and says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Ways(Gate):
    """A gate that logs nothing of a request that an agent chose, since that may be a secret."""

    def __init__(self, inside: ASGIApp, settings: Settings, base: str) -> None:
        super().__init__(
            inside,
            metrics=Metrics(),
            allowed_hosts=(),
            allowed_origins=(),
            request_timeout_seconds=settings.request_timeout_seconds,
            proxies=Proxies(()),
        )
        self._base = base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rest = scope["path"].removeprefix(self._base) if scope["path"].startswith(self._base + "/") else ""
        name = rest.removeprefix(_NAMED) if rest.startswith(_NAMED) else None
        allowed = ("POST",) if rest in _ASKED else ("GET", "HEAD") if rest == _MODELS or name is not None else ()
        if scope["type"] != "http" or scope["method"] not in allowed:
            await send_problem(scope, send, NotFound("way", scope["path"][:200]))
            return
        shown = {
            **scope,
            "path": self._base + (rest if name is None else f"{_NAMED}*"),
            "headers": [each for each in scope["headers"] if each[0] != b"x-request-id"],
            _NAME: name,
        }
        await super().__call__(shown, receive, send)


class _Only:
    """Lets questions to one endpoint's model through, with the session's own key in place of what the agent shows."""

    def __init__(self, endpoints: ASGIApp, access: ModelAccess, most_bytes: int) -> None:
        self._endpoints = endpoints
        self._access = access
        self._most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._pass(scope, receive, send)
        except HoldfastError as problem:
            await send_problem(scope, send, problem)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not hmac.compare_digest(_shown(scope).encode(), self._access.token.encode()):
            raise Unauthenticated
        is_asked = scope["method"] == "POST"
        if is_asked:
            refusal = await self._access.refusal()
            if refusal is not None:
                raise BudgetSpent(refusal)
        body = relieved(await _read(receive, self._most_bytes)) if is_asked else b""
        path = scope["path"] if scope[_NAME] is None else scope["path"].removesuffix("*") + scope[_NAME]
        passed = {
            **scope,
            "path": path,
            "headers": [
                *((name, value) for name, value in scope["headers"] if name.lower() in _FORWARDED),
                (b"authorization", b"Bearer " + self._access.key.encode()),
                (b"x-xerotier-workspace", self._access.workspace_id.encode()),
                (b"content-length", str(len(body)).encode()),
            ],
        }
        try:
            await self._endpoints(passed, _once(body, receive), send)
        finally:
            await self._access.used()


def relieved(body: bytes) -> bytes:
    """A request for a model without anything that a server would do beside answering it."""
    try:
        given = loads_strange(body)
    except (orjson.JSONDecodeError, RecursionError):
        raise Invalid("The body is not JSON.") from None
    if not isinstance(given, dict):
        raise Invalid("The body is no object.")
    kept = {name: value for name, value in given.items() if name not in _DROPPED and not name.startswith("x_")}
    if isinstance(kept.get("tools"), list):
        kept["tools"] = [tool for tool in kept["tools"] if _is_own(tool)]
        if not kept["tools"]:
            kept.pop("tools")
            kept.pop("tool_choice", None)
    return orjson.dumps(kept)


def _is_own(tool: Any) -> bool:
    if not isinstance(tool, Mapping):
        return False
    kind = tool.get("type", "custom")
    return isinstance(kind, str) and (kind in _OWN_TOOLS or kind.startswith(_OWN_KINDS))


def _shown(scope: Scope) -> str:
    """The key that a request shows, in either wire's way."""
    bearer = header(scope, b"authorization") or ""
    return bearer[7:] if bearer[:7].lower() == "bearer " else header(scope, b"x-api-key") or ""


async def _read(receive: Receive, most: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Invalid("The request was cut short.")
        body += message.get("body", b"")
        if len(body) > most:
            raise Invalid(f"The request is over {most} bytes.")
        if not message.get("more_body"):
            return bytes(body)


def _once(body: bytes, receive: Receive) -> Receive:
    """The body that was read already; after it, whatever else the connection tells."""
    given = False

    async def again() -> Message:
        nonlocal given
        if not given:
            given = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again
