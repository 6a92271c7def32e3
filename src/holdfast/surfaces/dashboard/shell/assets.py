"""Owns the files that pages load: each under a name that changes with its content, kept by browsers for good."""

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from starlette.types import Receive, Scope, Send

from holdfast.core.errors import NotFound
from holdfast.surfaces.http.asgi import header, send_bytes

PREFIX = "/static/"
_TYPES = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
_SMALL = 1_000
_FOR_FRAMES = frozenset({"vendor/mermaid.js", "elements/mermaid-frame.js"})
"""What sandboxed frames load too, which are of no origin."""


@cache
def _files() -> Mapping[str, bytes]:
    return dict(_walk(resources.files("holdfast.surfaces.dashboard") / "static", ""))


def _walk(folder: Traversable, below: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _walk(each, f"{below}{each.name}/")
        elif each.name.rpartition(".")[2] in _TYPES:
            found.append((below + each.name, each.read_bytes()))
    return found


@cache
def _version() -> str:
    """One for all files: modules import each other by plain relative names, so they change together."""
    digest = hashlib.sha256()
    for name, content in sorted(_files().items()):
        digest.update(f"{name} {len(content)} ".encode() + content)
    return digest.hexdigest()[:12]


@cache
def _zipped(name: str) -> bytes:
    return gzip.compress(_files()[name], 9, mtime=0)


def asset_url(name: str) -> str:
    """Where a page loads a file from; a file that is not there fails the page, in tests before anywhere else."""
    if name not in _files():
        raise LookupError(f"there is no static file {name}")
    return f"{PREFIX}{_version()}/{name}"


async def send_asset(scope: Scope, receive: Receive, send: Send) -> None:
    """One file; a name of an older version gets today's content, and nobody keeps that."""
    version, _, name = scope["path"].removeprefix(PREFIX).partition("/")
    content = _files().get(name)
    if content is None:
        raise NotFound("file", name[:200])
    keep = "public, max-age=31536000, immutable" if version == _version() else "no-store"
    readers = "cross-origin" if name in _FOR_FRAMES else "same-origin"
    headers = {"Cache-Control": keep, "Vary": "Accept-Encoding", "Cross-Origin-Resource-Policy": readers}
    if len(content) > _SMALL and "gzip" in (header(scope, b"accept-encoding") or ""):
        headers["Content-Encoding"] = "gzip"
        content = _zipped(name)
    await send_bytes(send, 200, content, content_type=_TYPES[name.rpartition(".")[2]], headers=headers)
