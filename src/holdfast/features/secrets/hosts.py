"""Owns the hosts that a secret is bound to: how they are written, and whether a place is one of them."""

import re
from collections.abc import Sequence

from holdfast.core.credential import Place
from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.fetch.network.url import BadUrl, parse_url

MAX_HOSTS = 20
# A host and perhaps a port: nothing in front of it, nothing behind it, and nothing that stands for several.
_ENTRY = re.compile(r"[^\s/@?#\\*%]{1,300}")


def checked_hosts(entries: Sequence[str]) -> tuple[str, ...]:
    """The hosts in the one way in which they are kept, each once; Invalid says which cannot be used."""
    if len(entries) > MAX_HOSTS:
        raise _wrong(f"name at most {MAX_HOSTS}")
    return tuple(dict.fromkeys(_place(entry.strip()).name for entry in entries))


def covers(hosts: Sequence[str], place: Place) -> bool:
    """Whether a place is one of the hosts, at that very port."""
    return place.name in hosts


def _place(entry: str) -> Place:
    try:
        if _ENTRY.fullmatch(entry) is None:
            raise BadUrl(entry, "")
        return parse_url(f"https://{entry}/").place
    except BadUrl:
        shown = entry if len(entry) <= 80 else entry[:80] + "…"
        raise _wrong(
            f"{shown!r} is no host; write a name or address such as api.openai.com, or git.example.org:8443 for "
            "another port than 443; no scheme, path, user or wildcard"
        ) from None


def _wrong(problem: str) -> Invalid:
    return Invalid("The secret cannot be bound to these hosts.", fields=[FieldError("hosts", problem)])
