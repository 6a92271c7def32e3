"""Owns how GitHub and GitLab are spoken to: their addresses, headers and credentials, and what their refusals mean."""

from collections.abc import Callable
from dataclasses import dataclass

import orjson

from holdfast.core.errors import FieldError, HoldfastError, Invalid, NotFound, UpstreamFailed
from holdfast.engines.fetch.network.api import JsonApi, seconds_until, too_often
from holdfast.engines.fetch.network.guard import FetchLimits, FetchReply, Guard
from holdfast.engines.fetch.network.url import parse_url

GITHUB_URL = "https://api.github.com"
GITLAB_URL = "https://gitlab.com"
_READING = FetchLimits(bytes=10_000_000, seconds=12.0)


class Missing(NotFound):
    """The host's 404, which callers turn into the thing that they asked for."""


class Empty(UpstreamFailed):
    """GitHub's 409 for a repository without commits."""


class SwitchedOff(UpstreamFailed):
    """The repository does not have this part: issues or merge requests are turned off, or removed for good."""


class Faltering(UpstreamFailed):
    """The host's own trouble (5xx): the same request may well work in a moment."""


@dataclass(frozen=True, slots=True)
class HostApi:
    """One host, ready to be asked."""

    name: str
    json: JsonApi
    base_url: str
    web_url: str
    has_token: bool

    @property
    def web_host(self) -> str:
        """Where people read its repositories."""
        return parse_url(self.web_url).host


def github_api(
    guard: Guard, *, token: str | None, base_url: str = GITHUB_URL, limits: FetchLimits = _READING
) -> HostApi:
    """GitHub's REST API, on github.com or an Enterprise server."""
    headers = {"x-github-api-version": "2022-11-28", "accept": "application/vnd.github+json"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    url = parse_url(base_url)
    web = f"{url.scheme}://{url.authority.removeprefix('api.')}"
    return _host(guard, "GitHub", base_url, web, headers, explain_github, limits, bool(token))


def gitlab_api(
    guard: Guard, *, token: str | None, base_url: str = GITLAB_URL, limits: FetchLimits = _READING
) -> HostApi:
    """GitLab's REST API v4, on gitlab.com or any other instance."""
    web = base_url.rstrip("/").removesuffix("/api/v4")
    headers = {"private-token": token} if token else {}
    return _host(guard, "GitLab", f"{web}/api/v4", web, headers, explain_gitlab, limits, bool(token))


def explain_github(reply: FetchReply) -> HoldfastError | None:
    """What GitHub means by a refusal."""
    headers = reply.headers
    if reply.status in (403, 429) and (
        headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers or b"secondary rate limit" in reply.body
    ):
        told = headers.get("retry-after", "")
        if not told and headers.get("x-ratelimit-remaining") == "0":
            told = headers.get("x-ratelimit-reset", "")
        return too_often("GitHub", seconds_until(told))
    if reply.status == 404:
        return Missing("GitHub resource", reply.url.target)
    if reply.status == 409:
        return Empty("The repository is empty.")
    if reply.status == 410:
        return SwitchedOff("GitHub has this switched off for the repository, or it was deleted.")
    if reply.status == 422 and "/search/" in reply.url.target:
        return Invalid("GitHub did not understand the search.", fields=[FieldError("query", _message(reply))])
    return _faltering("GitHub", reply)


def explain_gitlab(reply: FetchReply) -> HoldfastError | None:
    """What GitLab means by a refusal."""
    headers = reply.headers
    if reply.status == 429:
        return too_often("GitLab", seconds_until(headers.get("retry-after", "") or headers.get("ratelimit-reset", "")))
    if reply.status == 404:
        return Missing("GitLab resource", reply.url.target)
    if reply.status in (400, 403) and reply.url.target.partition("?")[0].endswith("/search"):
        return UpstreamFailed(
            "This GitLab does not search the code of all projects; name one in the query: repo:group/project."
        )
    if reply.status == 403 and b"insufficient_scope" not in reply.body:
        return SwitchedOff("GitLab has this switched off for the project, or the token's role may not see it.")
    return _faltering("GitLab", reply)


def _host(
    guard: Guard,
    name: str,
    base_url: str,
    web_url: str,
    headers: dict[str, str],
    explain: Callable[[FetchReply], HoldfastError | None],
    limits: FetchLimits,
    has_token: bool,
) -> HostApi:
    api = JsonApi(guard, base_url, name=name, headers=headers, explain=explain, limits=limits)
    return HostApi(name, api, str(parse_url(base_url)).rstrip("/"), web_url, has_token)


def _faltering(name: str, reply: FetchReply) -> HoldfastError | None:
    return Faltering(f"{name} answered {reply.status}.") if reply.status >= 500 else None


def _message(reply: FetchReply) -> str:
    try:
        found = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        found = None
    return str(found.get("message", "not understood") if isinstance(found, dict) else "not understood")[:200]
