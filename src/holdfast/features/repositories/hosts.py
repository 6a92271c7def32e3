"""Owns which host's API speaks for a repository, and what the host calls it."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.git.address import Location
from holdfast.features.repositories.model import Host

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
