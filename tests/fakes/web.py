"""A web site on a real socket: pages by path, with everything that was asked for written down."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Site:
    """A running site. Pages are added by assignment: `site.pages["/a"] = html("…")`."""

    port: int = 0
    pages: dict[str, "Content | Handler"] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)

    def url(self, path: str = "/", host: str = "site.test") -> str:
        return f"http://{host}:{self.port}{path}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        self.headers.append(dict(request.headers))
        page = self.pages.get(request.path_qs) or self.pages.get(request.path)
        if page is None:
            return web.Response(status=404, text="no such page")
        if isinstance(page, Content):
            return web.Response(status=page.status, body=page.body, headers=page.headers)
        return await page(request)


@dataclass(frozen=True)
class Content:
    """A fixed answer."""

    body: bytes
    headers: dict[str, str]
    status: int = 200


def html(body: str, *, head: str = "", status: int = 200) -> Content:
    text = f"<!doctype html><html><head>{head}</head><body>{body}</body></html>"
    return Content(text.encode(), {"Content-Type": "text/html; charset=utf-8"}, status)


def content(body: bytes, content_type: str, **headers: str) -> Content:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Content(body, {"Content-Type": content_type, **named})


def redirect(to: str, status: int = 302) -> Content:
    return Content(b"", {"Location": to}, status)


@asynccontextmanager
async def serve(answer: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Listen on a free local port, answering everything with `answer`."""
    app = web.Application(client_max_size=10_000_000)
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def site(*, tls: ssl.SSLContext | None = None) -> AsyncIterator[Site]:
    """A site with no pages yet."""
    made = Site()
    async with serve(made.answer, tls=tls) as port:
        made.port = port
        yield made


class Names:
    """A resolver that knows only what it was told, and counts the questions."""

    def __init__(self, **known: list[str]) -> None:
        self.known = {name.replace("_", "."): addresses for name, addresses in known.items()}
        self.questions: list[str] = []

    async def resolve(self, host: str, port: int) -> list[str]:
        self.questions.append(host)
        if host not in self.known:
            raise OSError("unknown host")
        return self.known[host]
