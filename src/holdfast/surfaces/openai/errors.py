"""Owns errors as OpenAI's clients expect them: `{"error": {message, type, param, code}}`."""

from typing import Any

from starlette.types import Send

from holdfast.core.errors import HoldfastError, UpstreamFailed
from holdfast.engines.llm.remote.upstream import UpstreamRefused
from holdfast.surfaces.http.asgi import send_json
from holdfast.surfaces.http.endpoint.errors import message_of

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}
_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


def status_of(error: HoldfastError) -> int:
    """OpenAI answers 400 for what a body says wrongly, and clients tell the kinds apart by status."""
    return 400 if error.status == 422 else error.status


def error_object(error: HoldfastError) -> dict[str, Any]:
    """The object inside `error`; an upstream's own is passed on."""
    if isinstance(error, UpstreamRefused) and isinstance((error.body or {}).get("error"), dict):
        return dict((error.body or {})["error"])
    status = status_of(error)
    kind = "upstream_error" if isinstance(error, UpstreamFailed) else _TYPES.get(status, "server_error")
    return {
        "message": message_of(error),
        "type": kind,
        "param": error.fields[0].field if error.fields else None,
        "code": error.code if error.code not in ("unauthenticated", "rate_limited") else _CODES[status],
    }


async def send_error(send: Send, error: HoldfastError) -> None:
    """Answer with an error."""
    await send_json(send, status_of(error), {"error": error_object(error)}, error.headers)
