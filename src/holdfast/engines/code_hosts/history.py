"""Owns what a code host keeps beside the code, in words of its own: pull requests, issues, releases, discussions."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from holdfast.core.clock import parse_time
from holdfast.core.credential import Credential
from holdfast.core.errors import Invalid, NotFound, UpstreamFailed
from holdfast.engines.code_hosts.apis import Missing, SwitchedOff
from holdfast.engines.fetch.network.api import CredentialRefused
from holdfast.engines.fetch.network.url import parse_url

HostItemKind = Literal["pull_request", "issue", "release", "discussion"]
MAX_BODY = 200_000
MAX_REMARKS = 1_000
MAX_FILES = 3_000
GHOST = "ghost"
"""Who wrote what a deleted account wrote; both hosts show it so."""

Known = Callable[[str, int], Awaitable[bool]]
"""Whether an item of this number is kept as it was at that moment, so that its details need not be asked for."""


async def nothing_known(number: str, updated_at: int) -> bool:
    """For a first look: everything is news."""
    return False


@dataclass(frozen=True, slots=True)
class Token:
    """A credential and what messages call it: the secret or the setting that holds it."""

    value: Credential
    name: str

    def sent_to(self, base_url: str) -> str:
        """The value, for requests to the API at this URL."""
        return self.value.sent_to(parse_url(base_url).place)


@dataclass(frozen=True, slots=True)
class HostRemark:
    """A comment, or a review with its verdict; of a comment on code, where it stands."""

    author: str
    at: int
    body: str
    kind: Literal["comment", "review"] = "comment"
    path: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class HostItem:
    """One of them with everything below it. `state` is open, closed, merged, published, draft or answered."""

    kind: HostItemKind
    number: str
    title: str
    body: str
    state: str
    author: str
    url: str
    created_at: int
    updated_at: int
    closed_at: int | None = None
    merged_at: int | None = None
    commit: str = ""
    labels: tuple[str, ...] = ()
    remarks: tuple[HostRemark, ...] = ()
    files: tuple[str, ...] = ()


class HostHistory(Protocol):
    """A host that is asked for what changed."""

    def items(
        self, full_name: str, kind: HostItemKind, since: int | None = None, *, known: Known = nothing_known
    ) -> AsyncGenerator[HostItem, None]:
        """Items that changed at `since` or later, the longest unchanged first, so that the last moment is a cursor.

        Nothing comes of a kind that the host or the repository does not have. Limits are waited out up to a bound;
        then RateLimited tells when to return.
        """
        ...

    async def aclose(self) -> None:
        """Close idle connections."""
        ...


class NotShown(NotFound):
    """The host shows no such repository to this token."""

    code = "repository_not_shown"

    def __init__(self, host: str, full_name: str, token_name: str) -> None:
        super().__init__(f"{host} repository", full_name)
        self.message = (
            f"{host} shows no repository {full_name!r} to {token_name}: it is gone, was renamed, or is private and "
            "needs a token that may read it."
        )


class TokenRefused(UpstreamFailed):
    """The host does not take the token."""

    code = "token_refused"

    def __init__(self, host: str, token_name: str) -> None:
        super().__init__(
            f"{host} refused {token_name}: it has expired, was revoked, or lacks a scope for reading; set a new one."
        )


@contextmanager
def in_words(host: str, full_name: str, token_name: str) -> Iterator[None]:
    """Refusals as errors that say what to do; nothing for what the repository does not have."""
    try:
        yield
    except Missing:
        raise NotShown(host, full_name, token_name) from None
    except CredentialRefused:
        raise TokenRefused(host, token_name) from None
    except SwitchedOff:
        return


def moment(text: Any) -> int | None:
    """Milliseconds for the host's spelling of a time; None for none."""
    if not isinstance(text, str) or not text:
        return None
    try:
        return parse_time(text, "time")
    except Invalid:
        raise UpstreamFailed(f"The host answered {text[:40]!r} where a time should be.") from None


def words(text: Any, limit: int = MAX_BODY) -> str:
    """Somebody's text as it can be kept: without NUL, which no store takes, and cut where it is absurdly long."""
    return text.replace("\0", "")[:limit] if isinstance(text, str) else ""
