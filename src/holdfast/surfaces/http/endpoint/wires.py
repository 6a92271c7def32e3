"""Owns which wire a request to an endpoint speaks: Anthropic's by its path or its header, else OpenAI's."""

from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.surfaces.http.asgi import header

# What no client of Anthropic's asks for; it has models, files and more, each in a shape of its own.
_OPENAIS = frozenset({"chat", "embeddings", "responses", "conversations", "vector_stores"})


class EndpointWires:
    """An ASGI application for `/{project_id}/{endpoint}/v1/…`."""

    def __init__(self, openai: ASGIApp, anthropic: ASGIApp) -> None:
        self._openai = openai
        self._anthropic = anthropic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rest = scope["path"].split("/", 4)[4]
        first = rest.partition("/")[0]
        # Only clients of Anthropic's say which version of its API they speak.
        theirs = first == "messages" or (first not in _OPENAIS and header(scope, b"anthropic-version") is not None)
        await (self._anthropic if theirs else self._openai)(scope, receive, send)
