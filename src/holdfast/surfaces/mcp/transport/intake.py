"""Owns what every MCP mount does with a POST: read its one message, tell its era, and refuse in words clients show."""

from collections.abc import Awaitable
from dataclasses import replace

from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import InboundLadderRejection, unsupported_protocol_version_rejection
from mcp_types import INVALID_REQUEST, PROTOCOL_VERSION_META_KEY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.types import Receive, Scope, Send

from holdfast.core.errors import HoldfastError
from holdfast.surfaces.http.asgi import header, read_body
from holdfast.surfaces.mcp.transport.wire import (
    MAX_BODY_BYTES,
    ONE_BY_ONE,
    RpcBatch,
    RpcMessage,
    WireError,
    error_message,
    parse,
    send_message,
    send_refusal,
)

SUPPORTED = (*HANDSHAKE_PROTOCOL_VERSIONS, *MODERN_PROTOCOL_VERSIONS)


async def read_message(scope: Scope, receive: Receive) -> RpcMessage:
    """The one message that a POST carries."""
    return one_message(await read_messages(scope, receive))


async def read_messages(scope: Scope, receive: Receive) -> RpcMessage | RpcBatch:
    """The message that a POST carries, or the batch of them."""
    content_type = (header(scope, b"content-type") or "").split(";")[0].strip().lower()
    if content_type != "application/json":
        raise WireError(INVALID_REQUEST, "Content-Type must be application/json.")
    return parse(await read_body(scope, receive, MAX_BODY_BYTES))


def one_message(read: RpcMessage | RpcBatch) -> RpcMessage:
    """The message, where a batch is not served."""
    if isinstance(read, RpcBatch):
        raise WireError(INVALID_REQUEST, ONE_BY_ONE)
    return read


def serves_handshake(version: str | None) -> bool:
    """Whether a request with this version header belongs to the handshake era; no header at all does."""
    return version is None or version in HANDSHAKE_PROTOCOL_VERSIONS


def unsupported_version(version: str | None) -> InboundLadderRejection | None:
    """What to say to a version header that no revision has; None for one that is served, or none at all."""
    if version is None or version in SUPPORTED:
        return None
    rejection = unsupported_protocol_version_rejection(version[:80], SUPPORTED)
    if rejection is None:
        raise AssertionError("it is not supported")
    told = f"{rejection.message}: MCP-Protocol-Version is {version[:80]!r}; this server speaks {', '.join(SUPPORTED)}."
    return replace(rejection, message=told)


def is_handshake(scope: Scope, message: RpcMessage) -> bool:
    """Whether a message belongs to the handshake era."""
    version = header(scope, b"mcp-protocol-version")
    if version is not None:
        return serves_handshake(version)
    # Gemini CLI sends no version after initialize, so no header is the older era; a stateless envelope is not.
    meta = (message.params or {}).get("_meta")
    return not (isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta and message.method != "initialize")


async def refusing(send: Send, work: Awaitable[None]) -> None:
    """Do the work, and answer whatever it refuses."""
    try:
        await work
    except HoldfastError as error:
        await send_refusal(send, error)
    except MCPError as error:
        raw = error_message(None, error.error.code, error.error.message)
        await send_message(send, raw, status=400)
    except WireError as error:
        await send_message(send, error_message(None, error.code, error.message), status=400)
