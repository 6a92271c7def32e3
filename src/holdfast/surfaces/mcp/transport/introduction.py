"""Owns the handshake itself: initialize, negotiated by the SDK, before there is any way to reach the client."""

from collections.abc import Mapping
from typing import Any

from mcp.server.connection import Connection
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import NoBackChannelError

from holdfast.features.clients.model import NewClient
from holdfast.surfaces.mcp.admission import Admitted
from holdfast.surfaces.mcp.transport.exchange import AnyServer, Exchange, answer
from holdfast.surfaces.mcp.transport.wire import RpcMessage


class Unreachable:
    """A client that has no session cannot be told anything unasked."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        return


async def introduce(server: AnyServer, admitted: Admitted, message: RpcMessage) -> tuple[bytes, NewClient | None]:
    """Answer initialize; the response, and the client unless it was refused."""
    connection = Connection.for_loop(Unreachable())
    raw, code = await answer(server, connection, Exchange(admitted, message, _drop))
    params = connection.client_params
    if code is not None or params is None:
        return raw, None
    capabilities = params.capabilities.model_dump(mode="json", by_alias=True, exclude_none=True)
    info = params.client_info
    return raw, NewClient(info.name, info.version, connection.protocol_version, info.title or "", capabilities)


async def _drop(raw: bytes) -> None:
    """Nothing can be said before the handshake is done."""
