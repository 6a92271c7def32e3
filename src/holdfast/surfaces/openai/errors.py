"""Owns errors as OpenAI's clients expect them: `{"error": {message, type, param, code}}`."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from starlette.types import Scope, Send

from holdfast.core.errors import HoldfastError, UpstreamFailed
from holdfast.core.text.redaction import redacted_path
from holdfast.engines.llm.remote.upstream import UpstreamRefused
from holdfast.surfaces.http.asgi import request_id, send_json

_log = logging.getLogger(__name__)

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}
# What clients ask for by habit, and what does the same here.
_INSTEAD = {
    "completions": "The legacy completions API is not served. Send `messages` to POST /chat/completions; in most "
    "libraries that is the class or the setting for chat models.",
}
_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


class NotServed(HoldfastError):
    """A path under `/v1` that nothing answers."""

    code = "not_found"
    status = 404

    def __init__(self, method: str, rest: str, *, methods: Sequence[str], served: Iterable[str]) -> None:
        """`methods` are those that the path is served for, `served` the paths that there are."""
        instead = _INSTEAD.get(rest.split("/")[0])
        if methods:
            instead = f"It takes {' and '.join(methods)}."
        elif instead is None:
            instead = f"What is served under /v1: {', '.join(f'/{path}' for path in served)}."
        # The path is what the caller sent, and may hold a key that stood in the wrong place.
        asked = f"{method} /{redacted_path(rest)}"[:200]
        super().__init__(f"No operation {asked!r} here. {instead}")


def status_of(error: HoldfastError) -> int:
    """OpenAI answers 400 for what a body says wrongly, and clients tell the kinds apart by status."""
    return 400 if error.status == 422 else error.status


def error_object(error: HoldfastError) -> dict[str, Any]:
    """The object inside `error`; an upstream's own is passed on."""
    if isinstance(error, UpstreamRefused) and isinstance((error.body or {}).get("error"), dict):
        return dict((error.body or {})["error"])
    status = status_of(error)
    message = error.message
    # Some messages name their fields already.
    wrong = [text for each in error.fields[:3] if (text := f"{each.field}: {each.message}") not in message]
    if wrong:
        message += " " + "; ".join(wrong) + "."
    kind = "upstream_error" if isinstance(error, UpstreamFailed) else _TYPES.get(status, "server_error")
    return {
        "message": message,
        "type": kind,
        "param": error.fields[0].field if error.fields else None,
        "code": error.code if error.code not in ("unauthenticated", "rate_limited") else _CODES[status],
    }


def as_told(problem: Exception, scope: Scope) -> HoldfastError:
    """A problem in words for the client: of what nobody foresaw it learns nothing, and the log has it all."""
    if isinstance(problem, HoldfastError):
        return problem
    id = request_id(scope)
    _log.error("a turn failed", exc_info=problem, extra={"request_id": id, "path": redacted_path(scope["path"])})
    return HoldfastError(f"Something went wrong here; the log has it under the request id {id}.")


async def send_error(send: Send, error: HoldfastError) -> None:
    """Answer with an error."""
    await send_json(send, status_of(error), {"error": error_object(error)}, error.headers)
