"""GitHub's REST API for one repository, as documented: versions, media types, limits and errors included."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.code_hosts.github_history import HubHistory
from tests.fakes.code_hosts.github_history import problem as _error
from tests.fakes.web import serve

TOKEN = "ghp_test"
RESET = 4_000_000_000


@dataclass(repr=False)
class FakeGitHub:
    """`octo/tides` with these files; `left` requests remain before the limit."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    left: int = 1_000
    commits: int = 12
    asked: list[str] = field(default_factory=list)
    secondary_limit: bool = False
    history: HubHistory = field(default_factory=HubHistory)
    faults: list[web.Response] = field(default_factory=list)
    """Answers that come first, whatever is asked."""
    tokens: list[str | None] = field(default_factory=list)
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    """Paths that end so are not answered until the event is set."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        self.tokens.append(request.headers.get("Authorization"))
        for ending, event in self.held.items():
            if request.path.endswith(ending):
                await event.wait()
        if self.faults:
            return self.faults.pop(0)
        if request.headers.get("X-GitHub-Api-Version") != "2022-11-28" or not request.headers.get("User-Agent"):
            return _error(400, "Bad request")
        token = request.headers.get("Authorization")
        if token is not None and token != f"Bearer {TOKEN}":
            return _error(401, "Bad credentials")
        if self.secondary_limit:
            return _error(403, "You have exceeded a secondary rate limit.", **{"Retry-After": "33"})
        if self.left == 0:
            limits = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(RESET)}
            return _error(403, "API rate limit exceeded", **limits)
        self.left -= 1
        if request.path == "/search/code":
            return self._search(request) if token else _error(401, "Requires authentication")
        if request.path == "/graphql":
            allowed = token is not None and request.method == "POST" and request.content_type == "application/json"
            return self.history.graphql(await request.json()) if allowed else _error(401, "Bad credentials")
        if request.method != "GET" or not request.headers.get("Accept", "").startswith("application/vnd.github"):
            return _error(415, "Unsupported 'Accept' header")
        if request.path == "/repos/octo/empty":
            return web.json_response(_about("octo/empty"))
        if request.path.startswith("/repos/octo/empty/"):
            return web.json_response({}) if request.path.endswith("languages") else _error_for_empty(request)
        if request.path.startswith("/repos/octo/renamed"):
            moved = request.path_qs.replace("/repos/octo/renamed", "/repositories/1", 1)
            return web.json_response(
                {"message": "Moved Permanently"}, status=301, headers={"Location": self.url + moved}
            )
        for root in ("/repos/octo/tides", "/repositories/1"):
            if request.path == root or request.path.startswith(f"{root}/"):
                return self._repository(request, request.path.removeprefix(root))
        return _error(404, "Not Found")

    def _repository(self, request: web.Request, rest: str) -> web.StreamResponse:
        raw = "raw" in request.headers.get("Accept", "")
        if rest == "":
            return web.json_response(_about("octo/tides"))
        if rest == "/languages":
            return web.json_response({"Python": 7_500, "Shell": 2_500})
        if rest == "/readme":
            found = self.files.get("README.md")
            return web.Response(body=found) if found is not None and raw else _error(404, "Not Found")
        if rest == "/git/trees/main":
            return web.json_response({"sha": "t", "tree": self._tree(), "truncated": False})
        if rest == "/commits":
            count = min(int(request.query.get("per_page", "30")), self.commits, 100)
            return web.json_response([_commit(number) for number in range(count)])
        if rest == "/contents" or rest.startswith("/contents/"):
            return self._contents(rest.removeprefix("/contents").strip("/"), raw)
        return self.history.answer(request, rest) or _error(404, "Not Found")

    def _tree(self) -> list[dict[str, Any]]:
        folders = sorted({parent for path in self.files for parent in parents(path)})
        entries: list[dict[str, Any]] = [
            {"path": path, "type": "tree", "mode": "040000", "sha": "s"} for path in folders
        ]
        return entries + [
            {"path": path, "type": "blob", "mode": "100644", "sha": "s", "size": len(body)}
            for path, body in self.files.items()
        ]

    def _contents(self, path: str, raw: bool) -> web.StreamResponse:
        if path in self.files:
            body = self.files[path]
            if raw:
                return web.Response(body=body, content_type="application/vnd.github.raw+json")
            large = len(body) > 1_000_000
            return web.json_response(
                {
                    "type": "file",
                    "path": path,
                    "size": len(body),
                    "encoding": "none" if large else "base64",
                    "content": "" if large else base64.encodebytes(body).decode(),
                }
            )
        prefix = f"{path}/" if path else ""
        inside = sorted({name[len(prefix) :].partition("/")[0] for name in self.files if name.startswith(prefix)})
        if not inside:
            return _error(404, "Not Found")
        return web.json_response(
            [
                {
                    "type": "file" if prefix + name in self.files else "dir",
                    "name": name,
                    "path": prefix + name,
                    "size": 1,
                }
                for name in inside
            ]
        )

    def _search(self, request: web.Request) -> web.StreamResponse:
        words = request.query.get("q", "").split()
        terms = [word for word in words if ":" not in word]
        if not terms:
            return web.json_response({"message": "Validation Failed", "errors": []}, status=422)
        found = [path for path, body in self.files.items() if all(term.encode() in body for term in terms)]
        items = [
            {
                "name": path.rpartition("/")[2],
                "path": path,
                "sha": "s",
                "url": f"{self.url}/repos/octo/tides/contents/{path}?ref=abc",
                "html_url": f"https://github.com/octo/tides/blob/abc/{path}",
                "repository": {"id": 1, "full_name": "octo/tides"},
                "score": 1.0,
                "text_matches": [{"fragment": f"… {terms[0]} …", "property": "content", "matches": []}],
            }
            for path in found[: int(request.query.get("per_page", "30"))]
        ]
        return web.json_response({"total_count": len(found), "incomplete_results": False, "items": items})


def parents(path: str) -> list[str]:
    """Every folder above a file."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _error_for_empty(request: web.Request) -> web.Response:
    return _error(404, "Not Found") if "readme" in request.path else _error(409, "Git Repository is empty.")


def _about(name: str) -> dict[str, Any]:
    return {
        "id": 1,
        "full_name": name,
        "html_url": f"https://github.com/{name}",
        "description": "Tide tables",
        "default_branch": "main",
        "stargazers_count": 321,
        "forks_count": 4,
        "open_issues_count": 5,
        "license": {"key": "apache-2.0", "spdx_id": "Apache-2.0"},
        "topics": ["sea"],
        "archived": False,
        "pushed_at": "2026-11-01T00:00:00Z",
    }


def _commit(number: int) -> dict[str, Any]:
    author = {"name": "Ada", "email": "ada@example.org", "date": "2026-11-01T00:00:00Z"}
    return {"sha": f"{number:040x}", "commit": {"message": f"Change {number}\n\nwhy", "author": author}}


@asynccontextmanager
async def github() -> AsyncIterator[FakeGitHub]:
    made = FakeGitHub()
    async with serve(made.answer) as port:
        made.url = made.history.url = f"http://127.0.0.1:{port}"
        yield made
