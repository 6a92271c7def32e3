"""Owns reading a repository's pull requests, issues and releases from GitHub by REST, its discussions by GraphQL."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

from holdfast.core.errors import UpstreamFailed
from holdfast.engines.code_hosts.apis import GITHUB_URL, Missing, SwitchedOff, github_api
from holdfast.engines.code_hosts.github_discussions import GitHubDiscussions
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


class GitHubHistory:
    """One token's view of GitHub."""

    def __init__(
        self,
        guard: Guard,
        token: Token,
        *,
        base_url: str = GITHUB_URL,
        patience: Patience = PATIENCE,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        host = github_api(guard, token=token.sent_to(base_url), base_url=base_url, limits=LISTING)
        self._name, self._web_host, self._token_name = host.name, host.web_host, token.name
        self._api = PatientApi(host, patience=patience, sleep=sleep)
        self._discussions = GitHubDiscussions(
            guard, token=token.sent_to(base_url), base_url=base_url, patience=patience, sleep=sleep
        )

    async def items(
        self, full_name: str, kind: HostItemKind, since: int | None = None, *, known: Known = nothing_known
    ) -> AsyncGenerator[HostItem, None]:
        name = repository_name(full_name, web_host=self._web_host, host_name=self._name, nested=False)
        with in_words(self._name, full_name, self._token_name):
            async for item in self._items(name, kind, since, known):
                yield item

    async def aclose(self) -> None:
        await self._api.aclose()
        await self._discussions.aclose()

    def _items(self, name: str, kind: HostItemKind, since: int | None, known: Known) -> AsyncGenerator[HostItem, None]:
        if kind == "release":
            return self._releases(f"/repos/{name}")
        if kind == "discussion":
            return self._discussions.items(name, since, known)
        return self._listed(f"/repos/{name}", kind, since, known)

    async def _listed(
        self, root: str, kind: HostItemKind, since: int | None, known: Known
    ) -> AsyncGenerator[HostItem, None]:
        """One list has issues and pull requests; only it can be asked by moment of change."""
        listing = HostListing(
            f"{root}/issues", {"state": "all", "sort": "updated", "direction": "asc"}, "since", _spelled
        )
        async for entry, at in self._api.changed(listing, since):
            is_pull = entry.get("pull_request") is not None
            if is_pull != (kind == "pull_request") or await known(str(entry["number"]), at):
                continue
            try:
                item = await (self._pull(root, entry) if is_pull else self._issue(root, entry))
            except (Missing, SwitchedOff):
                # Deleted or moved to another repository since the page was made.
                continue
            yield item

    async def _issue(self, root: str, entry: dict[str, Any]) -> HostItem:
        return _item("issue", entry, remarks=await self._comments(root, entry))

    async def _pull(self, root: str, entry: dict[str, Any]) -> HostItem:
        pull = await self._api.get(f"{root}/pulls/{entry['number']}")
        below = f"{root}/pulls/{entry['number']}"
        remarks = [
            *await self._comments(root, entry),
            *[_review(review) async for review in self._api.all(f"{below}/reviews", most=MAX_REMARKS) if _said(review)],
        ]
        if pull.get("review_comments", 1):
            comments = self._api.all(f"{below}/comments", most=MAX_REMARKS)
            remarks += [_code_comment(comment) async for comment in comments]
        files = self._api.all(f"{below}/files", most=MAX_FILES) if pull.get("changed_files", 1) else None
        merged_at = moment(pull.get("merged_at"))
        return _item(
            "pull_request",
            entry,
            state="merged" if merged_at is not None else None,
            merged_at=merged_at,
            # Of an open pull request this names a trial merge that nobody ever sees.
            commit=str(pull.get("merge_commit_sha") or "") if merged_at is not None else "",
            remarks=remarks,
            files=tuple([words(file.get("filename"), 4_096) async for file in files]) if files else (),
        )

    async def _comments(self, root: str, entry: dict[str, Any]) -> list[HostRemark]:
        if entry.get("comments") == 0:
            return []
        path = f"{root}/issues/{entry['number']}/comments"
        return [_comment(comment) async for comment in self._api.all(path, most=MAX_REMARKS)]

    async def _releases(self, root: str) -> AsyncGenerator[HostItem, None]:
        """They come without order of change, but whole: whoever keeps them sees what is new."""
        found = [_release(entry) async for entry in self._api.all(f"{root}/releases", most=MAX_RELEASES)]
        for item in sorted(found, key=lambda item: item.updated_at):
            yield item


def _spelled(at: int) -> str:
    # GitHub's moments have whole seconds.
    return datetime.fromtimestamp(at // 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _item(
    kind: HostItemKind,
    entry: dict[str, Any],
    *,
    remarks: list[HostRemark],
    state: str | None = None,
    merged_at: int | None = None,
    commit: str = "",
    files: tuple[str, ...] = (),
) -> HostItem:
    created = moment(entry.get("created_at"))
    if created is None:
        raise UpstreamFailed("GitHub answered an issue without the moment of its making.")
    return HostItem(
        kind=kind,
        number=str(entry["number"]),
        title=words(entry.get("title"), 1_000),
        body=words(entry.get("body")),
        state=state or words(entry.get("state"), 40),
        author=author(entry.get("user")),
        url=words(entry.get("html_url"), 2_000),
        created_at=created,
        updated_at=moment(entry.get("updated_at")) or created,
        closed_at=moment(entry.get("closed_at")),
        merged_at=merged_at,
        commit=commit,
        labels=tuple(filter(None, (_label(label) for label in entry.get("labels") or []))),
        remarks=tuple(sorted(remarks, key=lambda remark: remark.at)[:MAX_REMARKS]),
        files=files,
    )


def author(user: Any) -> str:
    """The login; a deleted account has none."""
    login = user.get("login") if isinstance(user, dict) else None
    return words(login, 200) or GHOST


def _label(label: Any) -> str:
    return words(label.get("name") if isinstance(label, dict) else label, 200)


def _comment(entry: dict[str, Any]) -> HostRemark:
    return HostRemark(author(entry.get("user")), moment(entry.get("created_at")) or 0, words(entry.get("body")))


def _said(review: dict[str, Any]) -> bool:
    # A review that only carries comments on lines says nothing itself; one that is pending is nobody's business yet.
    verdict = review.get("state")
    return verdict != "PENDING" and (bool(review.get("body")) or verdict in ("APPROVED", "CHANGES_REQUESTED"))


def _review(entry: dict[str, Any]) -> HostRemark:
    verdict = str(entry.get("state", "")).replace("_", " ").capitalize()
    body = words(entry.get("body"))
    text = f"{verdict}: {body}" if body else verdict
    return HostRemark(author(entry.get("user")), moment(entry.get("submitted_at")) or 0, text, kind="review")


def _code_comment(entry: dict[str, Any]) -> HostRemark:
    line = entry.get("line") or entry.get("original_line")
    return HostRemark(
        author(entry.get("user")),
        moment(entry.get("created_at")) or 0,
        words(entry.get("body")),
        kind="review",
        path=words(entry.get("path"), 4_096),
        line=line if isinstance(line, int) else None,
    )


def _release(entry: dict[str, Any]) -> HostItem:
    tag = words(entry.get("tag_name"), 1_000)
    created = moment(entry.get("published_at")) or moment(entry.get("created_at")) or 0
    state = "draft" if entry.get("draft") else "prerelease" if entry.get("prerelease") else "published"
    target = str(entry.get("target_commitish") or "")
    return HostItem(
        kind="release",
        number=tag,
        title=words(entry.get("name"), 1_000) or tag,
        body=words(entry.get("body")),
        state=state,
        author=author(entry.get("author")),
        url=words(entry.get("html_url"), 2_000),
        created_at=created,
        updated_at=moment(entry.get("updated_at")) or created,
        # It is the name of a branch more often than a commit.
        commit=target if len(target) == 40 and all(digit in "0123456789abcdef" for digit in target) else "",
    )
