"""Owns searching and reading code by GitLab's REST API, on gitlab.com or any other instance."""

import asyncio
import re
from typing import Any
from urllib.parse import quote

import orjson

from holdfast.core.errors import NotFound, RateLimited, UpstreamFailed
from holdfast.engines.code_hosts.apis import GITLAB_URL, Missing, gitlab_api
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
from holdfast.engines.fetch.network.guard import Guard

_PAGE = 100
_MAX_PAGES = 10
_REPO = re.compile(r"(?:^|\s)(?:repo|project):(\S+)")
_README = re.compile(r"readme(\.(md|rst|txt|adoc|org))?", re.IGNORECASE)
_EXTENSIONS = {
    "python": "py",
    "javascript": "js",
    "typescript": "ts",
    "ruby": "rb",
    "rust": "rs",
    "kotlin": "kt",
    "csharp": "cs",
    "c#": "cs",
    "c++": "cpp",
    "shell": "sh",
    "bash": "sh",
    "markdown": "md",
    "perl": "pl",
    "haskell": "hs",
    "elixir": "ex",
}


class GitLab:
    """Searching all projects needs a token and advanced search; reading public projects needs neither."""

    name = "GitLab"
    max_results = 20

    def __init__(self, guard: Guard, *, token: str | None = None, base_url: str = GITLAB_URL) -> None:
        host = gitlab_api(guard, token=token, base_url=base_url)
        self._api = host.json
        self._web_url = host.web_url
        self._web_host = host.web_host

    async def search(self, query: str, *, language: str | None, max_results: int) -> Hits:
        named = _REPO.search(query)
        root = f"/projects/{self._id(named.group(1))}" if named else ""
        words = _REPO.sub(" ", query).strip() if named else query
        if language:
            words += f" extension:{_EXTENSIONS.get(language.lower(), language.lower())}"
        parameters: dict[str, str | int] = {"scope": "blobs", "search": words, "per_page": max_results}
        found = await self._api.get(f"{root}/search", parameters)
        blobs = found[:max_results]
        names = await self._names({blob["project_id"] for blob in blobs})
        hits = [self._hit(blob, names) for blob in blobs]
        full = await asyncio.gather(
            *(self._content(hit, blob.get("ref")) for hit, blob in zip(hits[:FULL_CONTENTS], blobs, strict=False))
        )
        return Hits((*full, *hits[FULL_CONTENTS:]))

    async def overview(self, repository: str) -> Overview:
        root = f"/projects/{self._id(repository)}"
        try:
            about = await self._api.get(root, {"license": "true"})
        except Missing:
            raise NotFound("GitLab project", repository) from None
        branch = about.get("default_branch") or ""
        languages, tree, commits = await asyncio.gather(
            self._api.get(f"{root}/languages"),
            self._tree(root, "", branch, recursive=True),
            self._commits(root, branch),
        )
        entries, cut = tree
        return Overview(
            repository=about["path_with_namespace"],
            url=about.get("web_url", ""),
            description=about.get("description") or "",
            default_branch=branch,
            stars=about.get("star_count", 0),
            forks=about.get("forks_count", 0),
            open_issues=about.get("open_issues_count", 0),
            license=(about.get("license") or {}).get("key") or "",
            topics=tuple(about.get("topics", [])),
            archived=bool(about.get("archived")),
            updated_at=about.get("last_activity_at") or "",
            languages=languages,
            readme=await self._readme(root, branch, entries),
            tree=entries[:TREE_ENTRIES],
            tree_truncated=cut or len(entries) > TREE_ENTRIES,
            recent_commits=commits,
        )

    async def read(self, repository: str, paths: tuple[str, ...], *, ref: str | None = None) -> list[Read]:
        root = f"/projects/{self._id(repository)}"
        cleaned = [clean_path(path) for path in paths]
        return shared(list(await asyncio.gather(*(self._one(root, path, ref or "HEAD") for path in cleaned))))

    def _id(self, repository: str) -> str:
        name = repository_name(repository, web_host=self._web_host, host_name=self.name, nested=True)
        return quote(name, safe="")

    async def _one(self, root: str, path: str, ref: str) -> Read:
        try:
            if path:
                return file_read(path, await self._raw(root, path, ref))
        except Missing:
            pass
        try:
            entries, cut = await self._tree(root, path, ref, recursive=False)
        except Missing:
            entries, cut = (), False
        if not entries:
            return Read(
                path, "error", content=f"{path or 'the project'} was not found{f' at {ref}' if ref != 'HEAD' else ''}."
            )
        return Read(path, "directory", entries=entries, truncated=cut)

    async def _raw(self, root: str, path: str, ref: str) -> bytes:
        reply = await self._api.reply(f"{root}/repository/files/{quote(path, safe='')}/raw", {"ref": ref}, accept="*/*")
        return reply.body

    async def _tree(self, root: str, path: str, ref: str, *, recursive: bool) -> tuple[tuple[HostTreeEntry, ...], bool]:
        if not ref:
            return (), False
        entries: list[HostTreeEntry] = []
        page = "1"
        for _ in range(_MAX_PAGES):
            parameters: dict[str, str | int] = {"ref": ref, "per_page": _PAGE, "page": page}
            if path:
                parameters["path"] = path
            if recursive:
                parameters["recursive"] = "true"
            reply = await self._api.reply(f"{root}/repository/tree", parameters)
            entries += [_entry(item) for item in orjson.loads(reply.body)]
            page = reply.headers.get("x-next-page", "")
            if not page:
                break
        return tuple(sorted(entries, key=lambda entry: (entry.path.count("/"), entry.path))), bool(page)

    async def _readme(self, root: str, branch: str, entries: tuple[HostTreeEntry, ...]) -> str:
        found = next((entry.path for entry in entries if entry.kind == "file" and _README.fullmatch(entry.path)), None)
        if found is None:
            return ""
        return (as_text(await self._raw(root, found, branch)) or "")[:README_CHARACTERS]

    async def _commits(self, root: str, branch: str) -> tuple[HostCommit, ...]:
        if not branch:
            return ()
        found = await self._api.get(f"{root}/repository/commits", {"ref_name": branch, "per_page": COMMITS})
        return tuple(
            HostCommit(
                item["id"][:12], item.get("title", "")[:200], item.get("author_name", ""), item.get("created_at", "")
            )
            for item in found
        )

    async def _names(self, ids: set[int]) -> dict[int, str]:
        found = await asyncio.gather(*(self._api.get(f"/projects/{number}") for number in ids))
        return {project["id"]: project["path_with_namespace"] for project in found}

    def _hit(self, blob: dict[str, Any], names: dict[int, str]) -> CodeHit:
        name, path, ref = names[blob["project_id"]], blob["path"], blob.get("ref", "HEAD")
        url = f"{self._web_url}/{name}/-/blob/{ref}/{quote(path)}"
        if blob.get("startline"):
            url += f"#L{blob['startline']}"
        return CodeHit(name, path, url, (blob.get("data", "")[:600],))

    async def _content(self, hit: CodeHit, ref: str | None) -> CodeHit:
        try:
            reads = await self.read(hit.repository, (hit.path,), ref=ref)
        except (RateLimited, UpstreamFailed):
            # The hit is worth having without its file.
            return hit
        if reads[0].kind != "file":
            return hit
        text = reads[0].content[:README_CHARACTERS]
        return CodeHit(
            hit.repository, hit.path, hit.url, hit.snippets, text, truncated=len(text) < len(reads[0].content)
        )


def _entry(item: dict[str, Any]) -> HostTreeEntry:
    kinds: dict[str, Any] = {"blob": "file", "tree": "directory"}
    return HostTreeEntry(item["path"], kinds.get(item.get("type", ""), "other"))
