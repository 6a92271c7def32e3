"""Owns `/api/docs`: the OpenAPI document as a page where calls can be tried; nothing in it is from elsewhere."""

from functools import cache
from importlib import resources

from starlette.types import Receive, Scope, Send

from holdfast.surfaces.http.asgi import send_bytes
from holdfast.surfaces.http.authentication import session_cookie

# No inline script or style, no other origin: what a page in this origin may do, an owner's session may do.
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_TYPES = {
    "html": b"text/html; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
}


async def docs_page(scope: Scope, receive: Receive, send: Send) -> None:
    """The page; it reads the document itself, and is told whether there is a session to ask for."""
    signed_in = b' data-session="yes"' if session_cookie(scope) is not None else b""
    page = _asset("html").replace(b'<html lang="en">', b'<html lang="en"' + signed_in + b">", 1)
    headers = {"Content-Security-Policy": CSP, "Cache-Control": "no-store", "Referrer-Policy": "same-origin"}
    await send_bytes(send, 200, page, content_type=_TYPES["html"], headers=headers)


async def docs_asset(scope: Scope, receive: Receive, send: Send) -> None:
    """The page's script or style, by the end of the path."""
    kind = scope["path"].rpartition(".")[2]
    headers = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
    await send_bytes(send, 200, _asset(kind), content_type=_TYPES[kind], headers=headers)


@cache
def _asset(kind: str) -> bytes:
    return (resources.files("holdfast.surfaces.rest") / f"docs_page.{kind}").read_bytes()
