"""Owns the OpenAI-compatible endpoint: admits a request, finds its endpoint, and hands it to who serves the path."""

from collections.abc import Awaitable, Callable, Mapping

from starlette.types import Receive, Scope, Send

from holdfast.core.errors import HoldfastError, NotFound
from holdfast.core.redaction import redacted_path
from holdfast.features.endpoints.models import EndpointModels
from holdfast.surfaces.http.admission import ProjectDoor
from holdfast.surfaces.http.routes import Routes
from holdfast.surfaces.openai.errors import send_error
from holdfast.surfaces.openai.request import OpenAiRequest

Handler = Callable[[OpenAiRequest], Awaitable[None]]

MAX_BODY_BYTES = 32 * 1024 * 1024


class OpenAiSurface:
    """An ASGI application for `/{project_id}/{endpoint}/v1/…`."""

    def __init__(
        self,
        door: ProjectDoor,
        models: EndpointModels,
        handlers: Mapping[tuple[str, str], Handler],
        *,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        """`handlers` maps a method and a path under `/v1`, such as `/models/{model}`, to who serves it."""
        self._door = door
        self._models = models
        self._max_body_bytes = max_body_bytes
        self._routes: Routes[Handler] = Routes()
        for (method, path), handler in handlers.items():
            self._routes.add(method, path, handler)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Mapping[str, str] = {}
        try:
            _, project_id, name, _, rest = scope["path"].split("/", 4)
            entry = await self._door.admit(scope, project_id)
            headers = entry.headers
            found = self._routes.match(scope["method"], rest.rstrip("/"))
            if found is None:
                raise NotFound("operation", f"{scope['method']} /{redacted_path(rest)}"[:200])
            handler, path = found
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
            await handler(request)
        except HoldfastError as error:
            error.headers = {**headers, **error.headers}
            await send_error(send, error)

    async def stop(self) -> None:
        """Nothing here outlives its requests; those may finish."""
