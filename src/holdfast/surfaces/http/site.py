"""Owns which surface serves which path; each is a plain ASGI application."""

from collections.abc import Sequence

from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.core.errors import HoldfastError, NotFound
from holdfast.core.text.redaction import redacted_path
from holdfast.surfaces.http.asgi import header, send_problem

# Where an OpenAI client arrives whose base URL leaves something out.
_OPENAI_PATHS = ("/chat/completions", "/completions", "/responses", "/embeddings", "/models", "/messages")
OPENAI_BASE_URL = "The base URL of an OpenAI client ends with /{project_id}/{endpoint}/v1, such as /proj_…/default/v1."


class MethodNotAllowed(HoldfastError):
    """The path exists, but not for this method."""

    code = "method_not_allowed"
    status = 405


class Site:
    """Exact paths first, then prefixes in order, then the project paths `/{project_id}/…`."""

    def __init__(
        self,
        *,
        exact: dict[str, ASGIApp],
        prefixes: Sequence[tuple[str, ASGIApp]],
        projects: Sequence[tuple[str, ASGIApp]] = (),
        endpoints: ASGIApp | None = None,
        pages: ASGIApp | None = None,
    ) -> None:
        """`projects` maps what follows the project id (such as `/v1/mcp`) to who serves it.

        `endpoints` serves what follows a project and an endpoint of it: `/{project_id}/{endpoint}/v1/…`;
        `pages` tells a browser that there is nothing at a path.
        """
        self._exact = exact
        self._prefixes = tuple(prefixes)
        self._projects = tuple(projects)
        self._endpoints = endpoints
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        target = self._exact.get(path) or self._find(path)
        if target is None and self._pages is not None and "text/html" in (header(scope, b"accept") or ""):
            target = self._pages
        if target is None:
            error = NotFound("page", redacted_path(path)[:200])
            if path.endswith(_OPENAI_PATHS):
                error.message += " " + OPENAI_BASE_URL
            await send_problem(scope, send, error)
            return
        await target(scope, receive, send)

    def _find(self, path: str) -> ASGIApp | None:
        for prefix, target in self._prefixes:
            if path.startswith(prefix):
                return target
        if path.startswith("/proj_"):
            rest = path[path.find("/", 1) :]
            for suffix, target in self._projects:
                if rest == suffix or rest.startswith(suffix + "/"):
                    return target
            if self._endpoints is not None and rest[rest.find("/", 1) :].startswith("/v1/"):
                return self._endpoints
        return None
