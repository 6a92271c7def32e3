"""Owns the OpenAI-compatible endpoint: its requests, and how its errors are sent."""

from collections.abc import Awaitable, Callable

from starlette.types import Scope, Send

from holdfast.core.errors import HoldfastError
from holdfast.surfaces.http.endpoint.surface import EndpointRoute, EndpointSurface
from holdfast.surfaces.openai.errors import send_error
from holdfast.surfaces.openai.request import OpenAiRequest

Handler = Callable[[OpenAiRequest], Awaitable[None]]
Route = EndpointRoute[OpenAiRequest]


class OpenAiSurface(EndpointSurface[OpenAiRequest]):
    """What OpenAI's clients ask of `/{project_id}/{endpoint}/v1/…`."""

    request_type = OpenAiRequest

    async def send_error(self, scope: Scope, send: Send, error: HoldfastError) -> None:
        await send_error(send, error)
