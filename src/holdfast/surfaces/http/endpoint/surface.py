"""Owns the way of a request to an endpoint: admitted, its endpoint found, handed to who serves the path."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from starlette.types import Receive, Scope, Send

from holdfast.core.access import Access
from holdfast.core.errors import Forbidden, HoldfastError
from holdfast.features.endpoints.models import EndpointModels
from holdfast.surfaces.http.admission import AdmittedProject, ProjectAdmission
from holdfast.surfaces.http.asgi import REFUSE
from holdfast.surfaces.http.endpoint.errors import NotServed
from holdfast.surfaces.http.endpoint.request import EndpointRequest
from holdfast.surfaces.http.routes import Routes

R = TypeVar("R", bound=EndpointRequest)


# Without slots: Python 3.11 cannot make a generic dataclass that has them through an alias.
@dataclass(frozen=True)
class EndpointRoute(Generic[R]):
    """One path under `/v1`, such as `/models/{model}`, and who may ask for it beyond admission's scope `inference`."""

    method: str
    path: str
    handler: Callable[[R], Awaitable[None]]
    access: Access


class EndpointSurface(ABC, Generic[R]):
    """An ASGI application. A wire says what its requests are, and how it writes errors and headers."""

    request_type: type[R]

    def __init__(
        self,
        admission: ProjectAdmission,
        models: EndpointModels,
        routes: Iterable[EndpointRoute[R]],
        max_body_bytes: int,
    ) -> None:
        self._admission = admission
        self._models = models
        self._max_body_bytes = max_body_bytes
        self._routes: Routes[EndpointRoute[R]] = Routes()
        self._served: dict[str, None] = {}
        for route in routes:
            self._routes.add(route.method, route.path, route)
            self._served[route.path.strip("/").split("/{")[0]] = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Mapping[str, str] = {}
        scope["state"][REFUSE] = self.send_error
        try:
            _, project_id, name, _, rest = scope["path"].split("/", 4)
            entry = await self._admission.admit(self.credentialed(scope), project_id)
            headers = entry.headers
            found = self._routes.match(scope["method"], rest.rstrip("/"))
            if found is None:
                raise NotServed(scope["method"], rest, methods=self._routes.methods(rest), served=self._served)
            route, path = found
            await self._check(route, entry)
            connected = await self._models.connect(project_id, name)
            request = self.request_type(
                scope,
                receive,
                send,
                entry.principal,
                project_id,
                entry.workspace_id,
                connected,
                path,
                self._max_body_bytes,
                self.headers(scope, headers),
            )
            await route.handler(request)
        except HoldfastError as error:
            error.headers = {**headers, **error.headers}
            await self.send_error(scope, send, error)

    def credentialed(self, scope: Scope) -> Scope:
        """The request as admission reads it, with its credential in `Authorization`."""
        return scope

    def headers(self, scope: Scope, limits: Mapping[str, str]) -> Mapping[str, str]:
        """What every answer tells, beside where the client stands with its limit."""
        return limits

    @abstractmethod
    async def send_error(self, scope: Scope, send: Send, error: HoldfastError) -> None:
        """Answer with an error, in the shape of the wire."""

    async def _check(self, route: EndpointRoute[R], entry: AdmittedProject) -> None:
        try:
            route.access.check(entry.principal)
        except Forbidden as error:
            await self._admission.denied(entry.principal, f"{route.method} {route.path}", error)
            raise

    async def stop(self) -> None:
        """Nothing here outlives its requests; those may finish."""
