"""Owns JSON-RPC on HTTP: one message read from a body, one message written as JSON or as a server-sent event."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from pydantic import ValidationError
from starlette.types import Scope, Send

from holdfast.core.errors import FieldError, HoldfastError
from holdfast.core.text import jsontext
from holdfast.core.text.sse import framed
from holdfast.surfaces.http.asgi import send_bytes

logger = logging.getLogger(__name__)

RequestId = str | int
Kind = Literal["request", "notification", "reply"]

MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_BATCH = 100
BATCHED_VERSION = "2025-03-26"
"""The one revision that has batches: 2025-06-18 took them away."""
ONE_BY_ONE = f"Batches are served in sessions of {BATCHED_VERSION} only; send one message at a time."

NOT_FOUND = -32002
"""What the handshake revisions answer for a resource that is not there."""
REQUEST_CANCELLED = -32800
"""What the SDK answers a cancelled request of the handshake era, so that its stream ends."""
REFUSED = -32003

_CODES = {"not_found": NOT_FOUND, "invalid": INVALID_PARAMS, "forbidden": REFUSED, "conflict": INVALID_REQUEST}


class WireError(Exception):
    """The body is not a message we serve."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class RpcMessage:
    """A JSON-RPC message: `id` is None for a notification, `body` is the whole of it."""

    kind: Kind
    id: RequestId | None
    method: str
    params: dict[str, Any] | None
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RpcBatch:
    """Several messages in one body, as 2025-03-26 has them; one that cannot be read is what is wrong with it."""

    messages: Sequence[RpcMessage | WireError]


def parse(raw: bytes) -> RpcMessage | RpcBatch:
    """The message or the batch in a body; WireError says what is wrong with it."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as problem:
        raise WireError(PARSE_ERROR, f"Parse error: {problem}") from None
    if not isinstance(body, list):
        return _message(body)
    if not body:
        raise WireError(INVALID_REQUEST, "The batch is empty.")
    if len(body) > MAX_BATCH:
        raise WireError(INVALID_REQUEST, f"A batch has at most {MAX_BATCH} messages; this one has {len(body)}.")
    return RpcBatch([_message_or_problem(item) for item in body])


def _message_or_problem(body: Any) -> RpcMessage | WireError:
    try:
        return _message(body)
    except WireError as problem:
        return problem


def _message(body: Any) -> RpcMessage:
    if not isinstance(body, dict) or body.get("jsonrpc") != "2.0":
        raise WireError(INVALID_REQUEST, "A message is a JSON-RPC 2.0 object.")
    if "method" not in body:
        return _reply(body)
    method, params = body["method"], body.get("params")
    if not isinstance(method, str):
        raise WireError(INVALID_REQUEST, "method must be a string.")
    if params is not None and not isinstance(params, dict):
        raise WireError(INVALID_PARAMS, "params must be an object.")
    if "id" not in body:
        return RpcMessage("notification", None, method, params, body)
    return RpcMessage("request", _checked_id(body["id"]), method, params, body)


def _reply(body: dict[str, Any]) -> RpcMessage:
    if ("result" in body) == ("error" in body) or not isinstance(body.get("result", body.get("error")), dict):
        raise WireError(INVALID_REQUEST, "A message has a method, or a result, or an error.")
    return RpcMessage("reply", _checked_id(body.get("id")), "", None, body)


def _checked_id(id: Any) -> RequestId:
    if isinstance(id, bool) or not isinstance(id, str | int):
        raise WireError(INVALID_REQUEST, "id must be a string or an integer.")
    return id


def result_message(id: RequestId, result: Mapping[str, Any]) -> bytes:
    """A JSON-RPC response."""
    return jsontext.dumps({"jsonrpc": "2.0", "id": id, "result": result})


def error_message(id: RequestId | None, code: int, message: str, data: Any = None) -> bytes:
    """A JSON-RPC error; `id` is null where the request's was not readable."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return jsontext.dumps({"jsonrpc": "2.0", "id": id, "error": error})


def notification_message(method: str, params: Mapping[str, Any] | None) -> bytes:
    """A JSON-RPC notification."""
    body: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        body["params"] = params
    return jsontext.dumps(body)


def explain(error: Exception) -> tuple[int, str, Any]:
    """Code, message and data for whatever a handler raised; what we did not foresee is logged and not told."""
    if isinstance(error, MCPError):
        return error.error.code, error.error.message, error.error.data
    if isinstance(error, ValidationError):
        where = "; ".join(
            f"{'.'.join(str(step) for step in found['loc'])}: {found['msg']}" for found in error.errors()[:3]
        )
        return INVALID_PARAMS, f"Invalid request parameters: {where}"[:500], None
    if isinstance(error, HoldfastError) and error.status < 500:
        code = next((code for name, code in _CODES.items() if _is(error, name)), INVALID_REQUEST)
        return code, error.message, details(error)
    if isinstance(error, HoldfastError):
        return INTERNAL_ERROR, error.message, details(error)
    logger.error("an MCP handler failed", exc_info=error)
    return INTERNAL_ERROR, "Internal error", None


def _is(error: HoldfastError, name: str) -> bool:
    return any(getattr(kind, "code", None) == name for kind in type(error).__mro__)


def details(error: HoldfastError) -> dict[str, Any]:
    """What a program can read of an error of ours."""
    found: dict[str, Any] = {"code": error.code}
    if error.fields:
        found["fields"] = [_field(field) for field in error.fields]
    return found


def _field(field: FieldError) -> dict[str, str]:
    return {"field": field.field, "message": field.message}


async def send_message(send: Send, raw: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
    """A message as the whole response."""
    await send_bytes(send, status, raw, headers=headers)


async def send_refusal(send: Send, error: HoldfastError, id: RequestId | None = None) -> None:
    """Refuse a request before any protocol work, in words that both HTTP and MCP clients show."""
    code = REFUSED if error.status in (401, 403) else INVALID_REQUEST if error.status < 500 else INTERNAL_ERROR
    raw = error_message(id, code, error.message, details(error))
    await send_bytes(send, error.status, raw, headers=error.headers)


def http_status(code: int) -> int:
    """The HTTP status that the stateless revision gives a JSON-RPC error code."""
    return ERROR_CODE_HTTP_STATUS.get(code, 200)


def message_event(raw: bytes, event_id: int | None = None, *, retry_millis: int | None = None) -> bytes:
    """One message as an event; one without text only marks a place to resume from."""
    return framed(raw, event="message" if raw else "", id=event_id, retry_millis=retry_millis)


Form = Literal["json", "events"]
"""What a response may become: `events` leaves both ways open, `json` only the one."""


def form_of(scope: Scope, *, plain: bool = False) -> Form | None:
    """How the client wants to be answered, or None where it takes too little.

    MCP asks clients to take both forms. A `plain` endpoint also answers programs that know only JSON: those that say
    so, say nothing, or take anything, as curl does.
    """
    given = b",".join(value for key, value in scope["headers"] if key == b"accept").decode("latin-1").lower()
    types = {part.split(";")[0].strip() for part in given.split(",")}
    everything = "*/*" in types
    if plain:
        if given and not everything and not types & {"application/json", "application/*"}:
            return None
        return "events" if "text/event-stream" in types else "json"
    json = everything or bool(types & {"application/json", "application/*"})
    events = everything or bool(types & {"text/event-stream", "text/*"})
    return "events" if json and events else None
