"""Owns reading a project's merge requests, issues and releases from GitLab; its threads are their remarks."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote

from holdfast.core.clock import iso
from holdfast.engines.code_hosts.apis import GITLAB_URL, Missing, SwitchedOff, gitlab_api
from holdfast.engines.code_hosts.history import (
    GHOST,
    MAX_FILES,
    MAX_REMARKS,
    HostItem,
    HostItemKind,
    HostRemark,
    Known,
    Token,
    in_words,
    moment,
    nothing_known,
    words,
)
from holdfast.engines.code_hosts.names import repository_name
from holdfast.engines.code_hosts.patience import LISTING, PATIENCE, HostListing, Patience, PatientApi, Sleep
from holdfast.engines.fetch.network.guard import Guard

MAX_RELEASES = 10_000
_STATES = {"opened": "open", "locked": "closed"}
# What GitLab writes itself when somebody gives a verdict; everything else that it writes is noise.
_VERDICTS = ("approved this merge request", "unapproved this merge request", "requested changes")


class GitLabHistory:
    """One token's view of GitLab."""

    def __init__(
        self,
        guard: Guard,
        token: Token,
        *,
        base_url: str = GITLAB_URL,
        patience: Patience = PATIENCE,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        host = gitlab_api(guard, token=token.sent_to(base_url), base_url=base_url, limits=LISTING)
        self._name, self._web_host, self._token_name = host.name, host.web_host, token.name
        self._api = PatientApi(host, patience=patience, sleep=sleep)

    async def items(
        self, full_name: str, kind: HostItemKind, since: int | None = None, *, known: Known = nothing_known
    ) -> AsyncGenerator[HostItem, None]:
        name = repository_name(full_name, web_host=self._web_host, host_name=self._name, nested=True)
        root = f"/projects/{quote(name, safe='')}"
        with in_words(self._name, full_name, self._token_name):
            async for item in self._items(root, kind, since, known):
                yield item

    async def aclose(self) -> None:
        await self._api.aclose()

    async def _items(
        self, root: str, kind: HostItemKind, since: int | None, known: Known
    ) -> AsyncGenerator[HostItem, None]:
        if kind == "release":
            found = self._api.all(f"{root}/releases", {"order_by": "released_at", "sort": "asc"}, most=MAX_RELEASES)
            async for entry in found:
                yield _release(entry)
        elif kind in ("pull_request", "issue"):
            async for item in self._listed(root, kind, since, known):
                yield item

    async def _listed(
        self, root: str, kind: HostItemKind, since: int | None, known: Known
    ) -> AsyncGenerator[HostItem, None]:
        is_merge = kind == "pull_request"
        parameters = {"state": "all", "scope": "all", "order_by": "updated_at", "sort": "asc"}
        if not is_merge:
            # Confidential issues are for a few people; what is kept here is for everybody of the workspace.
            parameters["confidential"] = "false"
        path = f"{root}/{'merge_requests' if is_merge else 'issues'}"
        async for entry, at in self._api.changed(HostListing(path, parameters, "updated_after", iso), since):
            if await known(str(entry["iid"]), at):
                continue
            try:
                item = await self._item(kind, f"{path}/{entry['iid']}", entry)
            except (Missing, SwitchedOff):
                # Deleted or moved to another project since the page was made.
                continue
            yield item

    async def _item(self, kind: HostItemKind, path: str, entry: dict[str, Any]) -> HostItem:
        is_merge = kind == "pull_request"
        remarks: list[HostRemark] = []
        # Verdicts are not counted among a merge request's notes.
        if is_merge or entry.get("user_notes_count") != 0:
            notes = self._api.all(f"{path}/notes", {"sort": "asc", "order_by": "created_at"}, most=5 * MAX_REMARKS)
            remarks = [_remark(note) async for note in notes if _said(note)]
        files: list[str] = []
        if is_merge:
            diffs = self._api.all(f"{path}/diffs", most=MAX_FILES)
            files = [words(diff.get("new_path") or diff.get("old_path"), 4_096) async for diff in diffs]
        created = moment(entry.get("created_at")) or 0
        merged_at = moment(entry.get("merged_at"))
        state = words(entry.get("state"), 40)
        return HostItem(
            kind=kind,
            number=str(entry["iid"]),
            title=words(entry.get("title"), 1_000),
            body=words(entry.get("description")),
            state=_STATES.get(state, state),
            author=_author(entry.get("author")),
            url=words(entry.get("web_url"), 2_000),
            created_at=created,
            updated_at=moment(entry.get("updated_at")) or created,
            closed_at=moment(entry.get("closed_at")),
            merged_at=merged_at,
            commit=_merged_as(entry) if state == "merged" else "",
            labels=tuple(words(label, 200) for label in entry.get("labels") or [] if isinstance(label, str)),
            remarks=tuple(remarks[:MAX_REMARKS]),
            files=tuple(files),
        )


def _merged_as(entry: dict[str, Any]) -> str:
    # A fast-forward makes no commit of its own: the last one of the branch is what was merged.
    return str(entry.get("merge_commit_sha") or entry.get("squash_commit_sha") or entry.get("sha") or "")


def _author(user: Any) -> str:
    name = user.get("username") if isinstance(user, dict) else None
    return words(name, 200) or GHOST


def _said(note: dict[str, Any]) -> bool:
    if note.get("internal") or note.get("confidential"):
        return False
    return not note.get("system") or str(note.get("body", "")).startswith(_VERDICTS)


def _remark(note: dict[str, Any]) -> HostRemark:
    position = note.get("position") or {}
    line = position.get("new_line") or position.get("old_line")
    is_review = bool(position) or bool(note.get("system"))
    return HostRemark(
        _author(note.get("author")),
        moment(note.get("created_at")) or 0,
        words(note.get("body")),
        kind="review" if is_review else "comment",
        path=words(position.get("new_path") or position.get("old_path"), 4_096),
        line=line if isinstance(line, int) else None,
    )


def _release(entry: dict[str, Any]) -> HostItem:
    tag = words(entry.get("tag_name"), 1_000)
    released = moment(entry.get("released_at")) or moment(entry.get("created_at")) or 0
    return HostItem(
        kind="release",
        number=tag,
        title=words(entry.get("name"), 1_000) or tag,
        body=words(entry.get("description")),
        state="draft" if entry.get("upcoming_release") else "published",
        author=_author(entry.get("author")),
        url=words((entry.get("_links") or {}).get("self"), 2_000),
        created_at=released,
        updated_at=released,
        commit=str((entry.get("commit") or {}).get("id") or ""),
    )
