"""Owns the OpenAI-compatible endpoint: admits a request, finds its endpoint, and hands it to who serves the path."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from holdfast.core.access import Access
from holdfast.core.errors import Forbidden, HoldfastError
from holdfast.features.endpoints.models import EndpointModels
from holdfast.surfaces.http.admission import AdmittedProject, ProjectAdmission
from holdfast.surfaces.http.routes import Routes
from holdfast.surfaces.openai.errors import NotServed, send_error
from holdfast.surfaces.openai.request import OpenAiRequest

Handler = Callable[[OpenAiRequest], Awaitable[None]]

MAX_BODY_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Route:
    """One path under `/v1`, such as `/models/{model}`, and who may ask for it beyond admission's scope `inference`."""

    method: str
    path: str
    handler: Handler
    access: Access


class OpenAiSurface:
    """An ASGI application for `/{project_id}/{endpoint}/v1/…`."""

    def __init__(
        self,
        admission: ProjectAdmission,
        models: EndpointModels,
        routes: Iterable[Route],
        *,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self._admission = admission
        self._models = models
        self._max_body_bytes = max_body_bytes
        self._routes: Routes[Route] = Routes()
        self._served: dict[str, None] = {}
        for route in routes:
            self._routes.add(route.method, route.path, route)
            self._served[route.path.strip("/").split("/{")[0]] = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Mapping[str, str] = {}
        try:
            _, project_id, name, _, rest = scope["path"].split("/", 4)
            entry = await self._admission.admit(scope, project_id)
            headers = entry.headers
            found = self._routes.match(scope["method"], rest.rstrip("/"))
            if found is None:
                raise NotServed(scope["method"], rest, methods=self._routes.methods(rest), served=self._served)
            route, path = found
            await self._check(route, entry)
            connected = await self._models.connect(project_id, name)
            request = OpenAiRequest(
                scope,
                receive,
                send,
                entry.principal,
                project_id,
                entry.workspace_id,
                connected,
                path,
                self._max_body_bytes,
                headers,
            )
            await route.handler(request)
        except HoldfastError as error:
            error.headers = {**headers, **error.headers}
            await send_error(send, error)

    async def _check(self, route: Route, entry: AdmittedProject) -> None:
        try:
            route.access.check(entry.principal)
        except Forbidden as error:
            await self._admission.denied(entry.principal, f"{route.method} {route.path}", error)
            raise

    async def stop(self) -> None:
        """Nothing here outlives its requests; those may finish."""
