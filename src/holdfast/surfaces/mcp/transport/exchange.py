"""Owns one request in flight: the SDK's view of it, and the way back to the client while it runs."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import anyio
from mcp.server.connection import Connection
from mcp.server.lowlevel.server import Server
from mcp.server.runner import ServerRunner
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext

from holdfast.surfaces.mcp.admission import Admitted
from holdfast.surfaces.mcp.transport.wire import (
    RequestId,
    RpcMessage,
    error_message,
    explain,
    notification_message,
    result_message,
)

AnyServer = Server[Any]

_WITH_REPLIES = TransportContext(kind="streamable-http", can_send_request=True)
_WITHOUT_REPLIES = TransportContext(kind="streamable-http", can_send_request=False)


class AskClient(Protocol):
    """Sends the client a request and waits for its answer."""

    async def __call__(
        self, method: str, params: Mapping[str, Any] | None, timeout: float | None
    ) -> dict[str, Any]: ...


class Exchange:
    """The dispatch context of one request. `tell` puts a message on the request's own stream."""

    def __init__(
        self,
        admitted: Admitted,
        message: RpcMessage,
        tell: Callable[[bytes], Awaitable[None]],
        ask: AskClient | None = None,
        close_stream: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.message = message
        self._tell = tell
        self._ask = ask
        self.transport = _WITHOUT_REPLIES if ask is None else _WITH_REPLIES
        self.can_send_request = ask is not None
        self.message_metadata = ServerMessageMetadata(
            request_context=admitted,
            close_sse_stream=close_stream,
            close_standalone_sse_stream=None,
            can_send_request=self.can_send_request,
        )
        self.cancel_requested = anyio.Event()
        self._progress_token = _progress_token(message.params)

    @property
    def request_id(self) -> RequestId | None:
        return self.message.id

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        if self._ask is None:
            raise NoBackChannelError(method)
        return await self._ask(method, params, (opts or {}).get("timeout"))

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        await self._tell(notification_message(method, params))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        if self._progress_token is None:
            return
        params: dict[str, Any] = {"progressToken": self._progress_token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self.notify("notifications/progress", params)


async def answer(server: AnyServer, connection: Connection, exchange: Exchange) -> tuple[bytes, int | None]:
    """Run a request through the SDK's kernel; the response, and the error code where it is one."""
    message = exchange.message
    if message.id is None:
        raise AssertionError("only requests are answered")
    try:
        runner = ServerRunner(server, connection, None)
        result = await runner.on_request(exchange, message.method, message.params)
        return result_message(message.id, result), None
    except Exception as error:
        code, text, data = explain(error)
        return error_message(message.id, code, text, data), code


def _progress_token(params: Mapping[str, Any] | None) -> str | int | None:
    meta = (params or {}).get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if isinstance(token, str | int) and not isinstance(token, bool) else None
