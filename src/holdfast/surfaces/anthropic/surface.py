"""Owns Anthropic's wire at an endpoint: its credential, its headers, and how its errors are sent."""

from collections.abc import Mapping

from starlette.types import Scope, Send

from holdfast.core.errors import HoldfastError
from holdfast.surfaces.anthropic.errors import limit_headers, send_error
from holdfast.surfaces.http.asgi import header, request_id
from holdfast.surfaces.http.endpoint.request import EndpointRequest
from holdfast.surfaces.http.endpoint.surface import EndpointRoute, EndpointSurface

MessagesRoute = EndpointRoute[EndpointRequest]


class AnthropicSurface(EndpointSurface[EndpointRequest]):
    """What Anthropic's clients ask of `/{project_id}/{endpoint}/v1/…`."""

    request_type = EndpointRequest

    def credentialed(self, scope: Scope) -> Scope:
        """Older clients of Anthropic's send their key in a header of its own."""
        key = header(scope, b"x-api-key")
        if not key or header(scope, b"authorization") is not None:
            return scope
        return {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {key}".encode("latin-1"))]}

    def headers(self, scope: Scope, limits: Mapping[str, str]) -> Mapping[str, str]:
        return {**limit_headers(limits), "request-id": request_id(scope)}

    async def send_error(self, scope: Scope, send: Send, error: HoldfastError) -> None:
        await send_error(scope, send, error)
