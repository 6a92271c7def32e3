"""What GitHub keeps beside the code of `octo/tides`: its lists page, sort and filter as documented, its GraphQL too."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

_KNOWN = {
    "issues": {"state", "sort", "direction", "since", "per_page", "page"},
    "comments": {"per_page", "page", "since"},
    "reviews": {"per_page", "page"},
    "files": {"per_page", "page"},
    "releases": {"per_page", "page"},
}
Entry = dict[str, Any]


def at(second: int) -> str:
    """A moment in GitHub's spelling, so many seconds into 2026."""
    return datetime.fromtimestamp(1_767_225_600 + second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def user(login: str | None) -> Entry | None:
    return None if login is None else {"login": login, "type": "Bot" if login.endswith("[bot]") else "User", "id": 1}


@dataclass
class HubHistory:
    """Add with `issue`, `pull`, `comment`, …; `page_size` makes pages small; `before_list` runs before each list."""

    url: str = ""
    issues: dict[int, Entry] = field(default_factory=dict)
    pulls: dict[int, Entry] = field(default_factory=dict)
    comments: dict[int, list[Entry]] = field(default_factory=dict)
    reviews: dict[int, list[Entry]] = field(default_factory=dict)
    code_comments: dict[int, list[Entry]] = field(default_factory=dict)
    files: dict[int, list[Entry]] = field(default_factory=dict)
    releases: list[Entry] = field(default_factory=list)
    discussions: dict[int, Entry] = field(default_factory=dict)
    discussions_enabled: bool = True
    issues_enabled: bool = True
    page_size: int = 100
    before_list: Callable[[], None] = lambda: None
    graphql_errors: list[Entry] = field(default_factory=list)
    ids: int = 1_000

    def issue(self, number: int, second: int, author: str | None = "ada", **more: Any) -> Entry:
        made = {
            "id": self._id(),
            "number": number,
            "title": f"Issue {number}",
            "body": f"Body of {number}",
            "state": "open",
            "user": user(author),
            "labels": [{"id": 1, "name": "bug"}],
            "html_url": f"https://github.com/octo/tides/issues/{number}",
            "created_at": at(0),
            "updated_at": at(second),
            "closed_at": None,
            "comments": 0,
            **more,
        }
        self.issues[number] = made
        return made

    def pull(self, number: int, second: int, *, merged: bool = False, files: list[str] = [], **more: Any) -> Entry:
        link = {"url": f"{self.url}/repos/octo/tides/pulls/{number}", "merged_at": at(second) if merged else None}
        made = self.issue(number, second, title=f"Pull {number}", pull_request=link, **more)
        if merged:
            made |= {"state": "closed", "closed_at": at(second)}
        self.files[number] = [
            {"sha": "b", "filename": name, "status": "modified", "additions": 1, "deletions": 0} for name in files
        ]
        self.pulls[number] = {
            "id": self._id(),
            "number": number,
            "merged_at": link["merged_at"],
            "merge_commit_sha": f"{number:040x}",
            "changed_files": len(files),
        }
        return made

    def comment(self, number: int, body: str, second: int, author: str | None = "grace") -> Entry:
        made = {
            "id": self._id(),
            "user": user(author),
            "body": body,
            "created_at": at(second),
            "updated_at": at(second),
        }
        self.comments.setdefault(number, []).append(made)
        self.issues[number] |= {"comments": len(self.comments[number]), "updated_at": at(second)}
        return made

    def review(self, number: int, state: str, body: str, second: int, author: str | None = "grace") -> None:
        made = {"id": self._id(), "user": user(author), "body": body, "state": state, "submitted_at": at(second)}
        self.reviews.setdefault(number, []).append(made)

    def code_comment(self, number: int, body: str, path: str, line: int | None, second: int) -> None:
        made = {"id": self._id(), "user": user("grace"), "body": body, "path": path, "line": line, "original_line": 7}
        self.code_comments.setdefault(number, []).append(made | {"created_at": at(second), "updated_at": at(second)})

    def release(self, tag: str, second: int, **more: Any) -> None:
        made = {"id": self._id(), "tag_name": tag, "name": None, "body": f"Notes of {tag}", "draft": False}
        made |= {"prerelease": False, "target_commitish": "main", "author": user("ada"), "created_at": at(0)}
        made |= {"published_at": at(second), "html_url": f"https://github.com/octo/tides/releases/tag/{tag}"}
        self.releases.insert(0, made | more)

    def discussion(self, number: int, second: int, comments: list[Entry] = [], **more: Any) -> None:
        self.discussions[number] = {
            "number": number,
            "title": f"Discussion {number}",
            "body": "What do you think?",
            "url": f"https://github.com/octo/tides/discussions/{number}",
            "createdAt": at(0),
            "updatedAt": at(second),
            "closed": False,
            "closedAt": None,
            "isAnswered": False,
            "author": {"__typename": "User", "login": "ada"},
            "category": {"name": "Ideas"},
            "labels": {"nodes": []},
            "all_comments": comments,
            **more,
        }

    def discussion_comment(
        self, body: str, second: int, *replies: Entry, answer: bool = False, bot: bool = False
    ) -> Entry:
        author = {"__typename": "Bot", "login": "helper"} if bot else None
        made = {"id": f"DC_{self._id()}", "body": body, "createdAt": at(second), "isAnswer": answer, "author": author}
        return made | {"replies": {"nodes": list(replies)}}

    def answer(self, request: web.Request, rest: str) -> web.StreamResponse | None:
        """The list or entry at a path below the repository; None for a path that is not of these."""
        parts = rest.strip("/").split("/")
        match parts:
            case ["issues"]:
                return self._issues(request)
            case ["releases"]:
                return self._list(request, "releases", self.releases)
            case ["issues", number, "comments"] if int(number) in self.issues:
                return self._list(request, "comments", self.comments.get(int(number), []))
            case ["pulls", number] if int(number) in self.pulls:
                counted = {"review_comments": len(self.code_comments.get(int(number), []))}
                return web.json_response(self.issues[int(number)] | self.pulls[int(number)] | counted)
            case ["pulls", number, "reviews"] if int(number) in self.pulls:
                return self._list(request, "reviews", self.reviews.get(int(number), []))
            case ["pulls", number, "comments"] if int(number) in self.pulls:
                return self._list(request, "comments", self.code_comments.get(int(number), []))
            case ["pulls", number, "files"] if int(number) in self.pulls:
                return self._list(request, "files", self.files.get(int(number), []))
        return None

    def graphql(self, body: Entry) -> web.StreamResponse:
        """The two questions that are asked of discussions, with the arguments that the schema has."""
        if self.graphql_errors:
            return web.json_response({"data": {"repository": None}, "errors": self.graphql_errors})
        query, variables = body["query"], body["variables"]
        if query.count("{") != query.count("}") or not {"owner", "name"} <= variables.keys():
            return web.json_response({"errors": [{"message": 'Parse error on "}"', "type": "PARSE"}]})
        if (variables["owner"], variables["name"]) not in (("octo", "tides"), ("octo", "renamed")):
            problem = {"type": "NOT_FOUND", "message": "Could not resolve to a Repository."}
            return web.json_response({"data": {"repository": None}, "errors": [problem]})
        if "number" in variables:
            return self._discussion(variables["number"], variables.get("after"))
        found = sorted(self.discussions.values(), key=lambda each: each["updatedAt"], reverse=True)
        found = found if self.discussions_enabled else []
        nodes = [{"number": each["number"], "updatedAt": each["updatedAt"]} for each in found]
        page = _connection(nodes, variables.get("after"), min(self.page_size, 100))
        return _data({"hasDiscussionsEnabled": self.discussions_enabled, "discussions": page})

    def _discussion(self, number: int, after: str | None) -> web.StreamResponse:
        found = self.discussions.get(number)
        if found is None:
            problem = {"type": "NOT_FOUND", "message": "Could not resolve to a Discussion."}
            return web.json_response({"data": {"repository": {"discussion": None}}, "errors": [problem]})
        comments = _connection(found["all_comments"], after, min(self.page_size, 50))
        shown = {name: value for name, value in found.items() if name != "all_comments"}
        return _data({"discussion": shown | {"comments": comments}})

    def _issues(self, request: web.Request) -> web.StreamResponse:
        if not self.issues_enabled:
            return problem(410, "Issues has been disabled in this repository.")
        if request.query.get("state") != "all" or request.query.get("sort") != "updated":
            return problem(422, "the fake only knows what Holdfast asks")
        self.before_list()
        since = request.query.get("since", "")
        if since and (len(since) != 20 or not since.endswith("Z")):
            return problem(422, "since is not YYYY-MM-DDTHH:MM:SSZ")
        found = [issue for issue in self.issues.values() if issue["updated_at"] >= since]
        found.sort(key=lambda issue: (issue["updated_at"], issue["id"]), reverse=request.query["direction"] == "desc")
        return self._list(request, "issues", found)

    def _list(self, request: web.Request, kind: str, entries: list[Entry]) -> web.StreamResponse:
        unknown = set(request.query) - _KNOWN[kind]
        size = int(request.query.get("per_page", "30"))
        if unknown or not 1 <= size <= 100:
            return problem(422, f"unknown {unknown} or per_page {size}")
        size, page = min(size, self.page_size), int(request.query.get("page", "1"))
        headers = {}
        if len(entries) > page * size:
            # GitHub names the repository by its id here.
            path = request.path.replace("/repos/octo/tides", "/repositories/1")
            query = "&".join(f"{name}={value}" for name, value in request.query.items() if name != "page")
            last = -(-len(entries) // size)
            address = f"{self.url}{path}?{query}&page="
            headers["Link"] = f'<{address}{page + 1}>; rel="next", <{address}{last}>; rel="last"'
        return web.json_response(entries[(page - 1) * size : page * size], headers=headers)

    def _id(self) -> int:
        self.ids += 1
        return self.ids


def problem(status: int, message: str, **headers: str) -> web.Response:
    """An error in GitHub's shape."""
    return web.json_response({"message": message, "documentation_url": "https://docs"}, status=status, headers=headers)


def _connection(nodes: list[Entry], after: str | None, size: int) -> Entry:
    begin = int(after or 0)
    more = len(nodes) > begin + size
    return {
        "pageInfo": {"hasNextPage": more, "endCursor": str(begin + size) if more else None},
        "nodes": nodes[begin : begin + size],
    }


def _data(repository: Entry) -> web.Response:
    return web.json_response({"data": {"repository": repository}})
