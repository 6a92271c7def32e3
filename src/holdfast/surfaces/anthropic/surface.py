"""Owns Anthropic's wire at an endpoint: admits a request, finds its endpoint, and hands it to who serves the path."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from holdfast.core.access import Access
from holdfast.core.errors import Forbidden, HoldfastError, NotFound
from holdfast.core.text.redaction import redacted_path
from holdfast.features.endpoints.models import EndpointModels
from holdfast.surfaces.anthropic.errors import limit_headers, send_error
from holdfast.surfaces.http.admission import AdmittedProject, ProjectAdmission
from holdfast.surfaces.http.asgi import header, request_id
from holdfast.surfaces.http.endpoint.request import EndpointRequest
from holdfast.surfaces.http.routes import Routes

Handler = Callable[[EndpointRequest], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class MessagesRoute:
    """One path under `/v1`, and who may ask for it beyond admission's scope `inference`."""

    method: str
    path: str
    handler: Handler
    access: Access


class AnthropicSurface:
    """An ASGI application for what Anthropic's clients ask of `/{project_id}/{endpoint}/v1/…`."""

    def __init__(
        self,
        admission: ProjectAdmission,
        models: EndpointModels,
        routes: Iterable[MessagesRoute],
        max_body_bytes: int,
    ) -> None:
        self._admission = admission
        self._models = models
        self._max_body_bytes = max_body_bytes
        self._routes: Routes[MessagesRoute] = Routes()
        for route in routes:
            self._routes.add(route.method, route.path, route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Mapping[str, str] = {}
        try:
            _, project_id, name, _, rest = scope["path"].split("/", 4)
            entry = await self._admission.admit(_with_bearer(scope), project_id)
            headers = entry.headers
            found = self._routes.match(scope["method"], rest.rstrip("/"))
            if found is None:
                raise NotFound("operation", f"{scope['method']} /{redacted_path(rest)}"[:200])
            route, path = found
            await self._check(route, entry)
            connected = await self._models.connect(project_id, name)
            told = {**limit_headers(headers), "request-id": request_id(scope)}
            request = EndpointRequest(
                scope,
                receive,
                send,
                entry.principal,
                project_id,
                entry.workspace_id,
                connected,
                path,
                self._max_body_bytes,
                told,
            )
            await route.handler(request)
        except HoldfastError as error:
            error.headers = {**headers, **error.headers}
            await send_error(scope, send, error)

    async def _check(self, route: MessagesRoute, entry: AdmittedProject) -> None:
        try:
            route.access.check(entry.principal)
        except Forbidden as error:
            await self._admission.denied(entry.principal, f"{route.method} {route.path}", error)
            raise

    async def stop(self) -> None:
        """Nothing here outlives its requests; those may finish."""


def _with_bearer(scope: Scope) -> Scope:
    """The request as admission reads it: Anthropic's clients send their key in a header of its own."""
    key = header(scope, b"x-api-key")
    if not key or header(scope, b"authorization") is not None:
        return scope
    return {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {key}".encode("latin-1"))]}
