"""A remote MCP server, and whoever lets people in there, as one strict web server that says what a test wants."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

RESOURCE = "/.well-known/oauth-protected-resource/mcp"
METADATA = "/.well-known/oauth-authorization-server"


class BehindLogin:
    """Answers what it was asked and knows; anything else is 404."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_open = False
        """Whether it lets everybody in."""
        self.asked: Counter[str] = Counter()
        self.documents: dict[str, Any] = {
            RESOURCE: {"resource": f"{url}/mcp", "authorization_servers": [url]},
            METADATA: {
                "issuer": url,
                "authorization_endpoint": f"{url}/authorize",
                "token_endpoint": f"{url}/token",
                "registration_endpoint": f"{url}/register",
                "code_challenge_methods_supported": ["S256"],
            },
        }

    @property
    def place(self) -> str:
        return urlsplit(self.url).netloc

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, path, _ = head.split(" ", 2)
        length = next((line for line in head.lower().split("\r\n") if line.startswith("content-length:")), ": 0")
        body = json.loads(await reader.readexactly(int(length.partition(":")[2])) or b"null")
        self.asked[f"{method} {path}"] += 1
        status, answer, more = self._reply(method, path, body)
        text = json.dumps(answer).encode()
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(text)}", "Connection: close", *more, "", ""]
        writer.write("\r\n".join(lines).encode() + text)
        await writer.drain()
        writer.close()

    def _reply(self, method: str, path: str, body: Any) -> tuple[str, Any, list[str]]:
        if (method, path) == ("POST", "/mcp"):
            assert body["method"] == "ping", "saving a server asks it nothing else"
            if self.is_open:
                return "200 OK", {"jsonrpc": "2.0", "id": 1, "result": {}}, ["Content-Type: application/json"]
            named = f'WWW-Authenticate: Bearer resource_metadata="{self.url}{RESOURCE}"'
            return "401 Unauthorized", {}, [named]
        if (method, path) == ("POST", "/register"):
            assert body["redirect_uris"][0].endswith("/connect/callback")
            return "201 Created", {"client_id": "us", "token_endpoint_auth_method": "none"}, []
        if method == "GET" and path in self.documents:
            return "200 OK", self.documents[path], []
        return "404 Not Found", None, []


@asynccontextmanager
async def behind_login() -> AsyncIterator[BehindLogin]:
    """The server, while somebody is in here."""
    made: list[BehindLogin] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await made[0].answer(reader, writer)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    made.append(BehindLogin(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
    try:
        yield made[0]
    finally:
        server.close()
