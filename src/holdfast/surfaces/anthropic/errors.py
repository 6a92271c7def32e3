"""Owns errors as Anthropic's clients expect them: `{"type": "error", "error": {type, message}, "request_id"}`."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from starlette.types import Scope, Send

from holdfast.core.errors import HoldfastError
from holdfast.engines.llm.messages.chat_request import ThreadNotFound, ThreadUnsupported
from holdfast.engines.llm.remote.upstream import UpstreamRefused
from holdfast.surfaces.http.asgi import request_id, send_json
from holdfast.surfaces.http.endpoint.errors import message_of

OVERLOADED = 529
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    OVERLOADED: "overloaded_error",
}

_LIMITS = (
    ("X-RateLimit-Limit", "anthropic-ratelimit-requests-limit"),
    ("X-RateLimit-Remaining", "anthropic-ratelimit-requests-remaining"),
)


def status_of(error: HoldfastError) -> int:
    """Anthropic answers 400 for what a body says wrongly, and has a status of its own for an overloaded model."""
    if isinstance(error, UpstreamRefused) and error.answered in (503, OVERLOADED):
        return OVERLOADED
    return 400 if error.status in (415, 422) else error.status


def error_object(error: HoldfastError) -> dict[str, Any]:
    """The whole object, but for the request's id."""
    refusal = (error.body or {}).get("error") if isinstance(error, UpstreamRefused) else None
    said = refusal.get("message") if isinstance(refusal, dict) else None
    message = said if isinstance(said, str) else message_of(error)
    told: dict[str, Any] = {"type": _TYPES.get(status_of(error), "api_error"), "message": message}
    if isinstance(error, (ThreadNotFound, ThreadUnsupported)):
        # Clients go by this code, and then send the whole conversation.
        told["details"] = {"error_code": error.code}
    return {"type": "error", "error": told}


async def send_error(scope: Scope, send: Send, error: HoldfastError) -> None:
    """Answer with an error."""
    id = request_id(scope)
    headers = {**limit_headers(error.headers), "request-id": id}
    await send_json(send, status_of(error), {**error_object(error), "request_id": id}, headers)


def limit_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Where a client stands with its limit, in Anthropic's names too."""
    made = dict(headers)
    for ours, theirs in _LIMITS:
        if ours in headers:
            made[theirs] = headers[ours]
    reset = headers.get("X-RateLimit-Reset", "")
    if reset.isdigit():
        made["anthropic-ratelimit-requests-reset"] = _moment(int(reset))
    return made


# Thousands of answers a second tell the same one.
@lru_cache(16)
def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
