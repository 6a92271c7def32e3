"""Owns reading which repository somebody means: `owner/name` or the address of its page."""

import re

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.fetch.network.url import parse_url

_PART = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,99}")


def repository_name(text: str, *, web_host: str, host_name: str, nested: bool) -> str:
    """The full name; `nested` allows groups within groups, as GitLab has them."""
    name = text.strip().removesuffix("/").removesuffix(".git")
    if "://" in name:
        url = parse_url(name)
        if url.host.removeprefix("www.") != web_host:
            raise _wrong(text, f"it is not on {host_name} ({web_host})")
        path = url.target.partition("?")[0].partition("/-/")[0]
        name = path.strip("/").removesuffix(".git")
        name = name if nested else "/".join(name.split("/")[:2])
    parts = name.split("/")
    right_length = 2 <= len(parts) <= 20 if nested else len(parts) == 2
    if not right_length or not all(_PART.fullmatch(part) and part not in (".", "..") for part in parts):
        example = "group/project" if nested else "owner/repo"
        raise _wrong(text, f"write it as {example} or as its address on {web_host}")
    return name


def _wrong(text: str, problem: str) -> Invalid:
    return Invalid("The repository is not right.", fields=[FieldError("repository", f"{text[:200]!r}: {problem}")])
