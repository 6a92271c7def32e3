"""Owns which host's API speaks for a repository, and what the host calls it."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from holdfast.core.credential import Place
from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.code_hosts.apis import GITHUB_URL, GITLAB_URL
from holdfast.engines.fetch.network.url import parse_url
from holdfast.engines.git.transport.address import Location, parse_location
from holdfast.features.repositories.model import Host

_APIS = {("github", "github.com"): GITHUB_URL, ("gitlab", "gitlab.com"): GITLAB_URL}
_PUBLIC: dict[str, Host] = {"github.com": "github", "gitlab.com": "gitlab"}


def host_of(location: Location, wanted: Host | None, urls: Mapping[str, str]) -> tuple[Host, str]:
    """The host whose API knows a location, and `owner/name` there; empty where none does.

    `urls` are the configured APIs by host: an Enterprise server's own name is recognised by them.
    """
    if location.is_local:
        if wanted:
            problem = "a path has no host; sync the URL instead"
            raise Invalid("The host does not fit.", fields=[FieldError("host", problem)])
        return "", ""
    known = wanted if wanted is not None else _recognised(location.host, urls)
    if not known:
        return "", ""
    full_name = location.path.strip("/").removesuffix(".git")
    parts = full_name.split("/")
    if len(parts) < 2 or (known == "github" and len(parts) != 2) or not all(parts):
        problem = f"{known} names a repository owner/name; the URL ends with {full_name!r}"
        raise Invalid("The host does not fit.", fields=[FieldError("location", problem)])
    return known, full_name


def api_of(location: str, host: Host, urls: Mapping[str, str]) -> str | None:
    """The API that speaks for a location at its host; None where there is none.

    Only the API of the very host that it is cloned from: a token for one must never reach another.
    """
    place = parse_location(location)
    if not host or place.is_local:
        return None
    configured = urls.get(host)
    if configured is not None and place.host in _names_of(configured):
        return configured
    return _APIS.get((host, place.host.removeprefix("www.")))


def token_places(location: str, host: Host, urls: Mapping[str, str]) -> list[Place]:
    """Where the token of a repository goes: to its git server, and to the API that speaks for it."""
    api = api_of(location, host, urls)
    return [parse_location(location).place, *([] if api is None else [parse_url(api).place])]


def _names_of(url: str) -> tuple[str, str]:
    """An API is reached by its host's own name, or by one below it."""
    host = parse_url(url).host
    return host, host.removeprefix("api.")


def full_name_of(origin: str, urls: Mapping[str, str]) -> str:
    """What a host calls the repository that a local one was cloned from; empty when no host is recognised."""
    bare = origin.removesuffix(".git")
    if "://" in bare:
        parts = urlsplit(bare)
        host, path = (parts.hostname or "").lower(), parts.path
    else:
        place, _, path = bare.partition(":")
        host = place.rpartition("@")[2].lower()
    return path.strip("/") if _recognised(host, urls) and "/" in path.strip("/") else ""


def _recognised(host: str, urls: Mapping[str, str]) -> Host:
    name = host.lower().removeprefix("www.")
    if name in _PUBLIC:
        return _PUBLIC[name]
    for kind, url in urls.items():
        configured = (urlsplit(url).hostname or "").lower()
        if name and name in (configured, configured.removeprefix("api.")) and kind in ("github", "gitlab"):
            return "github" if kind == "github" else "gitlab"
    return ""
