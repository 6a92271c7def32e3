"""Owns the few ASGI moves that every HTTP surface makes: read headers and bodies, send JSON and errors."""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from holdfast.core.errors import HoldfastError, Invalid

JSON = b"application/json"
ANSWERED = "answered"
"""In a request's `state` from when the last of its answer is handed over."""
REFUSE = "refuse"
"""In a request's `state` where its surface writes errors in a shape of its own, as `send_problem` does."""


class BodyTooLarge(HoldfastError):
    """More bytes than this operation takes."""

    code = "body_too_large"
    status = 413


class ClientGone(Exception):
    """The client hung up before its answer was complete; there is nobody to tell."""


def header(scope: Scope, name: bytes) -> str | None:
    """The first header of that lower-case name."""
    for key, value in scope["headers"]:
        if key == name:
            return str(value.decode("latin-1"))
    return None


async def read_body(scope: Scope, receive: Receive, max_bytes: int, *, keep: bool = True) -> bytes:
    """The whole body, refused as soon as it is known to be too large; empty where it is only waited for."""
    declared = header(scope, b"content-length")
    if declared is not None and declared.isdigit() and int(declared) > max_bytes:
        raise BodyTooLarge(f"The body may have at most {max_bytes} bytes.")
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            raise BodyTooLarge(f"The body may have at most {max_bytes} bytes.")
        if keep or not chunks:
            chunks.append(chunk if keep else b"")
        if not message.get("more_body"):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def has_gone(receive: Receive) -> bool:
    """Whether the client hung up already, without waiting for it to."""
    try:
        async with asyncio.timeout(0):
            message = await receive()
            return bool(message["type"] == "http.disconnect")
    except TimeoutError:
        return False


def parse_json(body: bytes) -> Any:
    """The JSON value of a body; Invalid says where it stops being JSON."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise Invalid(f"The body is not JSON: {problem}.", code="not_json") from None


async def send_bytes(
    send: Send,
    status: int,
    body: bytes,
    *,
    content_type: bytes = JSON,
    headers: Mapping[str, str] | None = None,
) -> None:
    """One whole response."""
    raw = [] if status == 204 else [(b"content-type", content_type), (b"content-length", str(len(body)).encode())]
    if headers:
        raw += [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


async def send_json(send: Send, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
    """One whole JSON response."""
    await send_bytes(send, status, orjson.dumps(value), headers=headers)


def problem(error: HoldfastError, request_id: str) -> dict[str, Any]:
    """The one shape of an error in the management API."""
    return {
        "error": {
            "code": error.code,
            "message": error.message,
            "fields": [{"field": wrong.field, "message": wrong.message} for wrong in error.fields],
            "request_id": request_id,
        }
    }


def request_id(scope: Scope) -> str:
    """The id that the gate gave this request."""
    return str(scope.get("state", {}).get("request_id", ""))


async def send_problem(scope: Scope, send: Send, error: HoldfastError) -> None:
    """Answer with an error."""
    await send_json(send, error.status, problem(error, request_id(scope)), error.headers)
