"""Owns errors that both wires of an endpoint have, before each writes them in its own shape."""

import logging
from collections.abc import Iterable, Mapping, Sequence

from starlette.types import Scope

from holdfast.core.errors import HoldfastError
from holdfast.core.text.redaction import redacted_path
from holdfast.surfaces.http.asgi import request_id

_log = logging.getLogger(__name__)

# What clients ask for by habit, and what does the same here.
_INSTEAD: Mapping[str, str] = {
    "completions": "The legacy completions API is not served. Send `messages` to POST /chat/completions; in most "
    "libraries that is the class or the setting for chat models.",
}


class NotServed(HoldfastError):
    """A path under `/v1` that nothing answers."""

    code = "not_found"
    status = 404

    def __init__(self, method: str, rest: str, *, methods: Sequence[str], served: Iterable[str]) -> None:
        """`methods` are those that the path is served for, `served` the paths that there are."""
        instead = _INSTEAD.get(rest.split("/")[0])
        if rest.startswith("v1/"):
            instead = "The path has /v1 twice: leave it out of the client's base URL."
        elif methods:
            instead = f"It takes {' and '.join(methods)}."
        elif instead is None:
            instead = f"What is served under /v1: {', '.join(f'/{path}' for path in served)}."
        # The path is what the caller sent, and may hold a key that stood in the wrong place.
        asked = f"{method} /{redacted_path(rest)}"[:200]
        super().__init__(f"No operation {asked!r} here. {instead}")


def as_told(problem: Exception, scope: Scope) -> HoldfastError:
    """A problem in words for the client: of what nobody foresaw it learns nothing, and the log has it all."""
    if isinstance(problem, HoldfastError):
        return problem
    id = request_id(scope)
    _log.error("a turn failed", exc_info=problem, extra={"request_id": id, "path": redacted_path(scope["path"])})
    return HoldfastError(f"Something went wrong here; the log has it under the request id {id}.")


def message_of(error: HoldfastError) -> str:
    """What went wrong, with the fields that it is about; some messages name them already."""
    wrong = [text for each in error.fields[:3] if (text := f"{each.field}: {each.message}") not in error.message]
    return f"{error.message} {'; '.join(wrong)}." if wrong else error.message
