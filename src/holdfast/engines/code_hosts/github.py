"""Owns searching and reading code by GitHub's REST API, on github.com or an Enterprise server."""

import asyncio
import base64
from typing import Any, Literal
from urllib.parse import quote

import orjson

from holdfast.core.errors import NotFound, RateLimited, UpstreamFailed
from holdfast.engines.code_hosts.apis import GITHUB_URL, Empty, Missing, github_api
from holdfast.engines.code_hosts.model import (
    COMMITS,
    FULL_CONTENTS,
    README_CHARACTERS,
    TREE_ENTRIES,
    CodeHit,
    Hits,
    HostCommit,
    HostTreeEntry,
    Overview,
    Read,
    as_text,
    clean_path,
    file_read,
    shared,
)
from holdfast.engines.code_hosts.names import repository_name
from holdfast.engines.fetch.network.guard import FetchReply, Guard

_RAW = "application/vnd.github.raw+json"
_MATCHES = "application/vnd.github.text-match+json"
_KINDS: dict[str, Literal["file", "directory"]] = {
    "blob": "file",
    "file": "file",
    "tree": "directory",
    "dir": "directory",
}


class GitHub:
    """Search needs a token; reading public repositories works without one, at 60 requests an hour."""

    name = "GitHub"
    max_results = 30

    def __init__(self, guard: Guard, *, token: str | None = None, base_url: str = GITHUB_URL) -> None:
        host = github_api(guard, token=token, base_url=base_url)
        self._has_token = host.has_token
        self._api = host.json
        self._web_host = host.web_host

    async def search(self, query: str, *, language: str | None, max_results: int) -> Hits:
        if not self._has_token:
            raise UpstreamFailed("GitHub searches code only with a token; the operator has to set one.")
        asked = f"{query} language:{language}" if language else query
        parameters: dict[str, str | int] = {"q": asked, "per_page": max_results}
        reply = await self._api.reply("/search/code", parameters, accept=_MATCHES)
        found = _json(reply)
        hits = [_hit(item) for item in found.get("items", [])[:max_results]]
        contents = await asyncio.gather(*(self._content(hit) for hit in hits[:FULL_CONTENTS]))
        return Hits((*contents, *hits[FULL_CONTENTS:]), found.get("total_count"))

    async def overview(self, repository: str) -> Overview:
        root = self._root(repository)
        try:
            about = await self._api.get(root)
        except Missing:
            raise NotFound("GitHub repository", repository) from None
        root = f"/repos/{about['full_name']}"  # a renamed repository answers by its new name
        branch = about.get("default_branch") or "HEAD"
        languages, readme, tree, commits = await asyncio.gather(
            self._api.get(f"{root}/languages"),
            self._readme(root),
            self._tree(root, branch),
            self._commits(root),
        )
        entries, cut = tree
        return Overview(
            repository=about["full_name"],
            url=about.get("html_url", ""),
            description=about.get("description") or "",
            default_branch=branch,
            stars=about.get("stargazers_count", 0),
            forks=about.get("forks_count", 0),
            open_issues=about.get("open_issues_count", 0),
            license=(about.get("license") or {}).get("spdx_id") or "",
            topics=tuple(about.get("topics", [])),
            archived=bool(about.get("archived")),
            updated_at=about.get("pushed_at") or "",
            languages=_shares(languages),
            readme=readme,
            tree=entries,
            tree_truncated=cut,
            recent_commits=commits,
        )

    async def read(self, repository: str, paths: tuple[str, ...], *, ref: str | None = None) -> list[Read]:
        root = self._root(repository)
        cleaned = [clean_path(path) for path in paths]
        return shared(list(await asyncio.gather(*(self._one(root, path, ref) for path in cleaned))))

    def _root(self, repository: str) -> str:
        return "/repos/" + repository_name(repository, web_host=self._web_host, host_name=self.name, nested=False)

    async def _one(self, root: str, path: str, ref: str | None) -> Read:
        parameters = {"ref": ref} if ref else {}
        try:
            found = await self._api.get(f"{root}/contents/{quote(path)}".rstrip("/"), parameters)
        except Missing:
            return Read(
                path, "error", content=f"{path or 'the repository'} was not found{f' at {ref}' if ref else ''}."
            )
        if isinstance(found, list):
            return Read(path, "directory", entries=tuple(_entry(item) for item in found))
        if found.get("type") != "file":
            return Read(path, "error", content=f"{path} is a {found.get('type', 'thing')}, not a file.")
        if found.get("encoding") == "base64":
            return file_read(path, base64.b64decode(found.get("content", "")))
        # Above a megabyte the JSON holds no content; the raw form does.
        reply = await self._api.reply(f"{root}/contents/{quote(path)}", parameters, accept=_RAW)
        return file_read(path, reply.body)

    async def _content(self, hit: CodeHit) -> CodeHit:
        try:
            reads = await self.read(hit.repository, (hit.path,))
        except (RateLimited, UpstreamFailed):
            # The hit is worth having without its file.
            return hit
        if reads[0].kind != "file":
            return hit
        text = reads[0].content[:README_CHARACTERS]
        return CodeHit(
            hit.repository, hit.path, hit.url, hit.snippets, text, truncated=len(text) < len(reads[0].content)
        )

    async def _readme(self, root: str) -> str:
        try:
            reply = await self._api.reply(f"{root}/readme", accept=_RAW)
        except Missing:
            return ""
        return (as_text(reply.body) or "")[:README_CHARACTERS]

    async def _tree(self, root: str, branch: str) -> tuple[tuple[HostTreeEntry, ...], bool]:
        try:
            found = await self._api.get(f"{root}/git/trees/{quote(branch, safe='')}", {"recursive": 1})
        except (Missing, Empty):
            return (), False
        entries = sorted((_entry(item) for item in found.get("tree", [])), key=_shallow_first)
        return tuple(entries[:TREE_ENTRIES]), bool(found.get("truncated")) or len(entries) > TREE_ENTRIES

    async def _commits(self, root: str) -> tuple[HostCommit, ...]:
        try:
            found = await self._api.get(f"{root}/commits", {"per_page": COMMITS})
        except Empty:
            return ()
        return tuple(_commit(item) for item in found)


def _json(reply: FetchReply) -> dict[str, Any]:
    try:
        found = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        raise UpstreamFailed("GitHub answered something that is not JSON; is its address right?") from None
    return found if isinstance(found, dict) else {}


def _hit(item: dict[str, Any]) -> CodeHit:
    fragments = [match.get("fragment", "") for match in item.get("text_matches", [])]
    return CodeHit(
        item["repository"]["full_name"],
        item["path"],
        item.get("html_url", ""),
        tuple(fragment[:600] for fragment in fragments if fragment)[:5],
    )


def _entry(item: dict[str, Any]) -> HostTreeEntry:
    kind: Literal["file", "directory", "other"] = _KINDS.get(item.get("type", ""), "other")
    return HostTreeEntry(item["path"], kind, item.get("size") if kind == "file" else None)


def _shallow_first(entry: HostTreeEntry) -> tuple[int, str]:
    return entry.path.count("/"), entry.path


def _commit(item: dict[str, Any]) -> HostCommit:
    commit = item.get("commit", {})
    author = commit.get("author") or {}
    message = (commit.get("message") or "").partition("\n")[0]
    return HostCommit(item.get("sha", "")[:12], message[:200], author.get("name", ""), author.get("date", ""))


def _shares(sizes: dict[str, int]) -> dict[str, float]:
    total = sum(sizes.values()) or 1
    return {name: round(100 * size / total, 1) for name, size in sizes.items()}
