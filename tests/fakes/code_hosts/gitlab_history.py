"""What GitLab keeps beside the code of a project: merge requests, issues, notes and releases, paged as documented."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

_SORTED = {"state", "scope", "order_by", "sort", "updated_after", "per_page", "page"}
_KNOWN = {
    "merge_requests": _SORTED,
    "issues": _SORTED | {"confidential"},
    "notes": {"sort", "order_by", "per_page", "page"},
    "diffs": {"per_page", "page"},
    "releases": {"order_by", "sort", "per_page", "page"},
}
Entry = dict[str, Any]


def at(second: int, milli: int = 0) -> str:
    """A moment in GitLab's spelling, so many seconds into 2026."""
    moment = datetime.fromtimestamp(1_767_225_600 + second, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + f".{milli:03}Z"


def user(name: str | None) -> Entry | None:
    return None if name is None else {"id": 1, "username": name, "name": name.capitalize(), "state": "active"}


@dataclass
class LabHistory:
    """Add with `merge`, `issue`, `note` and `release`; `before_list` runs before each list."""

    merges: dict[int, Entry] = field(default_factory=dict)
    issues: dict[int, Entry] = field(default_factory=dict)
    notes: dict[tuple[str, int], list[Entry]] = field(default_factory=dict)
    diffs: dict[int, list[Entry]] = field(default_factory=dict)
    releases: list[Entry] = field(default_factory=list)
    page_size: int = 100
    before_list: Callable[[], None] = lambda: None
    issues_enabled: bool = True
    ids: int = 1_000

    def merge(self, iid: int, second: int, *, files: list[str] = [], **more: Any) -> Entry:
        made = self._entry(iid, second, "merge_requests", merge_commit_sha=None, squash_commit_sha=None)
        made |= {"sha": f"{iid:040x}", "merged_at": None, **more}
        self.diffs[iid] = [{"old_path": name, "new_path": name, "diff": "", "new_file": False} for name in files]
        self.merges[iid] = made
        return made

    def issue(self, iid: int, second: int, **more: Any) -> Entry:
        self.issues[iid] = {**self._entry(iid, second, "issues", confidential=False), **more}
        return self.issues[iid]

    def note(self, kind: str, iid: int, body: str, second: int, **more: Any) -> None:
        made = {"id": self._id(), "type": None, "body": body, "author": user("grace"), "system": False}
        made |= {"internal": False, "created_at": at(second), "updated_at": at(second), **more}
        self.notes.setdefault((kind, iid), []).append(made)
        if not made["system"]:
            entry = (self.issues if kind == "issues" else self.merges)[iid]
            entry |= {"user_notes_count": entry["user_notes_count"] + 1, "updated_at": at(second)}

    def release(self, tag: str, second: int, **more: Any) -> None:
        made: Entry = {"tag_name": tag, "name": tag, "description": f"Notes of {tag}", "author": user("ada")}
        made |= {"created_at": at(0), "released_at": at(second), "upcoming_release": False}
        made |= {"commit": {"id": "c" * 40}, "_links": {"self": f"https://gitlab.example/-/releases/{tag}"}, **more}
        self.releases.append(made)

    def answer(self, request: web.Request, rest: str) -> web.StreamResponse | None:
        """The list at a path below the project; None for a path that is not of these."""
        match rest.split("/"):
            case ["releases"]:
                return self._list(request, "releases", sorted(self.releases, key=lambda each: each["released_at"]))
            case ["issues"]:
                if not self.issues_enabled:
                    return web.json_response({"message": "403 Forbidden"}, status=403)
                public = [entry for entry in self.issues.values() if not entry["confidential"]]
                shown = public if request.query.get("confidential") == "false" else list(self.issues.values())
                return self._changed(request, "issues", shown)
            case ["merge_requests"]:
                return self._changed(request, "merge_requests", list(self.merges.values()))
            case [("issues" | "merge_requests") as kind, iid, "notes"]:
                if int(iid) in (self.issues if kind == "issues" else self.merges):
                    return self._list(request, "notes", self.notes.get((kind, int(iid)), []))
            case ["merge_requests", iid, "diffs"] if int(iid) in self.merges:
                return self._list(request, "diffs", self.diffs[int(iid)])
        return None

    def _changed(self, request: web.Request, kind: str, entries: list[Entry]) -> web.StreamResponse:
        asked = request.query
        if (asked.get("state"), asked.get("order_by"), asked.get("sort")) != ("all", "updated_at", "asc"):
            return web.json_response({"error": "the fake only knows what Holdfast asks"}, status=400)
        self.before_list()
        found = [entry for entry in entries if entry["updated_at"] >= asked.get("updated_after", "")]
        return self._list(request, kind, sorted(found, key=lambda entry: (entry["updated_at"], entry["id"])))

    def _list(self, request: web.Request, kind: str, entries: list[Entry]) -> web.StreamResponse:
        unknown = set(request.query) - _KNOWN[kind]
        size = int(request.query.get("per_page", "20"))
        if unknown or not 1 <= size <= 100:
            return web.json_response({"error": f"{unknown} does not have a valid value"}, status=400)
        size, page = min(size, self.page_size), int(request.query.get("page", "1"))
        more = len(entries) > page * size
        headers = {"X-Page": str(page), "X-Per-Page": str(size), "X-Next-Page": str(page + 1) if more else ""}
        return web.json_response(entries[(page - 1) * size : page * size], headers=headers)

    def _entry(self, iid: int, second: int, kind: str, **more: Any) -> Entry:
        return {
            "id": self._id(),
            "iid": iid,
            "project_id": 7,
            "title": f"Title {iid}",
            "description": f"Body of {iid}",
            "state": "opened",
            "author": user("ada"),
            "labels": ["bug"],
            "web_url": f"https://gitlab.example/sea/nested/tides/-/{kind}/{iid}",
            "created_at": at(0),
            "updated_at": at(second),
            "closed_at": None,
            "user_notes_count": 0,
            **more,
        }

    def _id(self) -> int:
        self.ids += 1
        return self.ids
