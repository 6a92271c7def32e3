"""GitLab's REST API v4 for one project, as documented: URL-encoded ids, page headers, limits."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from tests.fakes.code_hosts.github import parents
from tests.fakes.code_hosts.gitlab_history import LabHistory
from tests.fakes.web import serve

TOKEN = "glpat-test"
PROJECT = "sea/nested/tides"


@dataclass(repr=False)
class FakeGitLab:
    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    limited: bool = False
    global_search: bool = True
    pages: list[str] = field(default_factory=list)
    history: LabHistory = field(default_factory=LabHistory)
    faults: list[web.Response] = field(default_factory=list)
    """Answers that come first, whatever is asked."""
    asked: list[str] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.rel_url.raw_path_qs)
        self.tokens.append(request.headers.get("PRIVATE-TOKEN"))
        if self.faults:
            return self.faults.pop(0)
        path = request.rel_url.raw_path
        if not path.startswith("/api/v4/"):
            return web.Response(status=404)
        path = path.removeprefix("/api/v4")
        token = request.headers.get("PRIVATE-TOKEN")
        if token is not None and token != TOKEN:
            return web.json_response({"message": "401 Unauthorized"}, status=401)
        if self.limited:
            limits = {"RateLimit-Remaining": "0", "RateLimit-Reset": "4000000000", "Retry-After": "44"}
            return web.Response(status=429, text="Retry later", headers=limits)
        if path == "/search":
            if token is None:
                return web.json_response({"message": "401 Unauthorized"}, status=401)
            if not self.global_search:
                return web.json_response(
                    {"message": {"error": "Scope not supported without Elasticsearch!"}}, status=400
                )
            return self._search(request)
        parts = path.split("/")
        if parts[1] != "projects" or unquote(parts[2]) not in (PROJECT, "7"):
            return web.json_response({"message": "404 Project Not Found"}, status=404)
        return self._project(request, "/".join(parts[3:]))

    def _project(self, request: web.Request, rest: str) -> web.StreamResponse:
        if rest == "":
            return web.json_response(_about())
        if rest == "languages":
            return web.json_response({"Python": 75.0, "Shell": 25.0})
        if rest == "search":
            return self._search(request)
        if rest == "repository/commits":
            count = int(request.query.get("per_page", "20"))
            commit = {"title": "Change", "author_name": "Ada", "created_at": "2026-11-01T00:00:00Z"}
            return web.json_response([{"id": f"{number:040x}", **commit} for number in range(min(count, 12))])
        if rest == "repository/tree":
            return self._tree(request)
        if rest.startswith("repository/files/") and rest.endswith("/raw") and request.query.get("ref"):
            encoded = rest.removeprefix("repository/files/").removesuffix("/raw")
            body = self.files.get(unquote(encoded)) if "/" not in encoded else None
            return web.Response(body=body) if body is not None else _missing("404 File Not Found")
        return self.history.answer(request, rest) or _missing("404 Not Found")

    def _tree(self, request: web.Request) -> web.StreamResponse:
        folder = request.query.get("path", "")
        prefix = f"{folder}/" if folder else ""
        inside = [path for path in self.files if path.startswith(prefix)]
        if not inside:
            return _missing("404 Tree Not Found")
        recursive = request.query.get("recursive") == "true"
        blobs = {path for path in inside if recursive or "/" not in path[len(prefix) :]}
        trees = {parent for path in inside for parent in parents(path) if parent.startswith(prefix)}
        trees = trees if recursive else {prefix + tree[len(prefix) :].partition("/")[0] for tree in trees}
        entries = [{"id": "i", "path": path, "name": path, "type": "tree", "mode": "040000"} for path in sorted(trees)]
        entries += [{"id": "i", "path": path, "name": path, "type": "blob", "mode": "100644"} for path in sorted(blobs)]
        size, page = min(int(request.query.get("per_page", "20")), 100), int(request.query.get("page", "1"))
        self.pages.append(str(page))
        more = len(entries) > page * size
        headers = {"X-Page": str(page), "X-Per-Page": str(size), "X-Next-Page": str(page + 1) if more else ""}
        return web.json_response(entries[(page - 1) * size : page * size], headers=headers)

    def _search(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("scope") != "blobs" or not request.query.get("search"):
            return web.json_response({"error": "scope is missing"}, status=400)
        words = request.query["search"].split()
        terms = [word for word in words if not word.startswith("extension:")]
        endings = [word.removeprefix("extension:") for word in words if word.startswith("extension:")]
        found = [
            path
            for path, body in self.files.items()
            if all(term.encode() in body for term in terms) and all(path.endswith(ending) for ending in endings)
        ]
        blob = {"project_id": 7, "ref": "main", "startline": 3, "data": "a line\n"}
        count = int(request.query.get("per_page", "20"))
        return web.json_response([{**blob, "path": path, "filename": path, "basename": path} for path in found[:count]])


def _missing(message: str) -> web.Response:
    return web.json_response({"message": message}, status=404)


def _about() -> dict[str, Any]:
    return {
        "id": 7,
        "path_with_namespace": PROJECT,
        "web_url": f"https://gitlab.example/{PROJECT}",
        "description": "Tide tables",
        "default_branch": "main",
        "star_count": 3,
        "forks_count": 2,
        "open_issues_count": 1,
        "license": {"key": "mit"},
        "topics": ["sea"],
        "archived": False,
        "last_activity_at": "2026-11-01T00:00:00Z",
    }


@asynccontextmanager
async def gitlab() -> AsyncIterator[FakeGitLab]:
    made = FakeGitLab()
    async with serve(made.answer) as port:
        made.url = f"http://127.0.0.1:{port}"
        yield made
