"""Owns the outermost layer: request ids, allowed hosts and origins, time and size caps, logs, metrics, last errors."""

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from random import getrandbits
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.core.errors import Forbidden, HoldfastError, Unavailable
from holdfast.core.text.redaction import redacted, redacted_path
from holdfast.surfaces.http.asgi import ANSWERED, REFUSE, ClientGone, has_gone, header, send_problem
from holdfast.surfaces.http.protocol.heads import MalformedRequest
from holdfast.surfaces.http.protocol.proxies import Proxies
from holdfast.surfaces.http.site import MethodNotAllowed
from holdfast.surfaces.http.telemetry.logs import AccessLog
from holdfast.surfaces.http.telemetry.metrics import Metrics

_log = logging.getLogger("holdfast.access")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
CLIENT_GONE = 499
"""Logged and counted where nothing was sent because nobody was there any more; what was sent is logged as it was."""
_LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})
_FILES = "/static/"


class HostRefused(HoldfastError):
    """The Host header names a server that this is not: a rebound DNS name, or a missing setting."""

    code = "host_not_allowed"
    status = 421


class Gate:
    """ASGI middleware around everything that is served."""

    def __init__(
        self,
        inside: ASGIApp,
        *,
        metrics: Metrics,
        allowed_hosts: Iterable[str],
        allowed_origins: Iterable[str],
        request_timeout_seconds: float,
        proxies: Proxies,
    ) -> None:
        self._inside = inside
        self.metrics = metrics
        self.proxies = proxies
        self._hosts = _LOCAL | {host.lower() for host in allowed_hosts}
        self._origins = {origin.lower().rstrip("/") for origin in allowed_origins}
        self._timeout_seconds = request_timeout_seconds
        self._access = AccessLog()
        self.draining = False
        self.on_ready: list[Callable[[], Awaitable[object]]] = []
        """Loads what the first request would otherwise wait for."""
        self.on_stop: list[Callable[[], Awaitable[None]]] = []
        """Ends the streams of a surface, so that a shutdown need not wait for clients to hang up."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # Nothing inside speaks anything else; a WebSocket is told so, the rest needs no answer.
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1003})
            return
        given = header(scope, b"x-request-id")
        id = given if given and _is_request_id(given) else f"{getrandbits(64):016x}"
        scope.setdefault("state", {})["request_id"] = id
        self.proxies.unwrap(scope)
        answer = _Answer(send, id, scope["state"])
        started = time.perf_counter()
        try:
            await self._serve(scope, receive, answer)
        finally:
            seconds = time.perf_counter() - started
            self.metrics.request(scope, answer.status, seconds)
            self._access.write(
                {
                    "request_id": id,
                    "method": scope["method"],
                    "path": redacted_path(scope["path"]),
                    "status": answer.status,
                    "ms": round(seconds * 1000, 2),
                    "actor": scope["state"].get("actor"),
                }
            )

    async def _serve(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        try:
            self._check(scope)
            await self._within_time(self._inside(scope, receive, answer), answer, scope)
            if not answer.started:
                # Some work goes on without its client and then has nobody to answer.
                if await has_gone(receive):
                    raise ClientGone
                raise RuntimeError("nothing answered this request")
        except ClientGone:
            answer.status = answer.status or CLIENT_GONE
        except HoldfastError as error:
            await answer.fail(scope, error)
        except TimeoutError:
            _log.warning(
                "timed out", extra={"request_id": scope["state"]["request_id"], "path": redacted_path(scope["path"])}
            )
            await answer.fail(scope, Unavailable("The request took too long; try again.", code="timeout"))
        except asyncio.CancelledError:
            # Only a server that stops cancels requests. What has begun is cut; the rest is told to come back.
            if not answer.started:
                await answer.fail(scope, _shutting_down())
            raise
        except Exception:
            # The last resort: whoever asked learns nothing of our insides, the log has it all.
            _log.exception(
                "failed", extra={"request_id": scope["state"]["request_id"], "path": redacted_path(scope["path"])}
            )
            await answer.fail(scope, HoldfastError("Something went wrong here; the log has it under this request id."))

    async def _within_time(self, work: Awaitable[None], answer: "_Answer", scope: Scope) -> None:
        """Bound the time to the first byte; a stream that has begun may go on, and so may what is `unhurried`."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        expired = False

        def expire() -> None:
            nonlocal expired
            if not answer.started and task is not None and not scope["state"].get("unhurried"):
                expired = True
                task.cancel()

        timer = loop.call_later(self._timeout_seconds, expire)
        try:
            await work
        except asyncio.CancelledError:
            if expired and task is not None:
                task.uncancel()
                raise TimeoutError from None
            raise
        finally:
            timer.cancel()

    def _check(self, scope: Scope) -> None:
        if self.draining:
            raise _shutting_down()
        if scope["method"] not in _METHODS:
            raise MethodNotAllowed("This method is not served anywhere here.", headers={"Allow": ", ".join(_METHODS)})
        if _CONTROL.search(scope["path"]):
            raise MalformedRequest("The path has a control character in it.")
        host = (header(scope, b"host") or "").lower()
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if name not in self._hosts and host not in self._hosts and "*" not in self._hosts:
            raise HostRefused(
                f"This server is not {redacted(name)[:100]!r}; add it to HOLDFAST_ALLOWED_HOSTS if it should be."
            )
        origin = header(scope, b"origin")
        # Files of pages are the same for everybody: a sandboxed frame, which is of no origin, loads them too.
        is_file = scope["method"] in ("GET", "HEAD") and scope["path"].startswith(_FILES)
        if origin is not None and not is_file and not self._origin_allowed(origin, host):
            raise Forbidden(
                f"Pages of {redacted(origin)[:100]!r} may not call this server; see HOLDFAST_ALLOWED_ORIGINS.",
                code="origin_not_allowed",
            )

    def _origin_allowed(self, origin: str, host: str) -> bool:
        lowered = origin.lower().rstrip("/")
        if lowered in self._origins:
            return True
        try:
            parts = urlsplit(lowered)
        except ValueError:
            return False
        if parts.scheme not in ("http", "https"):
            return False
        # Our own pages, and any page of this machine: a rebound name fails the host check above.
        return parts.netloc == host or (parts.hostname or "") in ("localhost", "127.0.0.1", "::1")


def _shutting_down() -> Unavailable:
    return Unavailable("The server is shutting down.", headers={"Connection": "close", "Retry-After": "5"})


def _is_request_id(given: str) -> bool:
    """It goes into logs and traces as it is, so that nothing may hide in it."""
    return _REQUEST_ID.fullmatch(given) is not None and redacted(given) == given


class _Answer:
    """Adds the request id to the answer and remembers how far it came."""

    def __init__(self, send: Send, request_id: str, state: dict[str, Any]) -> None:
        self._send = send
        self._id = request_id.encode()
        self._state = state
        self.status = 0
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            message["headers"] = [
                *message.get("headers", ()),
                (b"x-request-id", self._id),
                (b"x-content-type-options", b"nosniff"),
            ]
        elif not message.get("more_body"):
            self._state[ANSWERED] = True
        await self._send(message)

    async def fail(self, scope: Scope, error: HoldfastError) -> None:
        """Answer with the error, if nothing was sent yet. What has begun is left without its end, so that the server
        cuts the connection: ended properly, it would be taken for the whole."""
        if not self.started:
            await scope["state"].get(REFUSE, send_problem)(scope, self, error)
