"""Owns a proxy that adds a real key to every request: the conformance suite cannot send headers of its own."""

from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send


class KeyProxy:
    """ASGI: the same application, asked by somebody who has a key. Host and Origin pass as they came."""

    def __init__(self, app: ASGIApp, key: str, workspace_id: str) -> None:
        self._app = app
        self._headers = [
            (b"authorization", f"Bearer {key}".encode()),
            (b"x-xerotier-workspace", workspace_id.encode()),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        changed: dict[str, Any] = {**scope, "headers": [*scope["headers"], *self._headers]}
        await self._app(changed, receive, send)
