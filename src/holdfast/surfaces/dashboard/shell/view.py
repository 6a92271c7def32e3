"""Owns PageView: one person's request for a page, and the replies that a page can make to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.access import Access
from holdfast.core.errors import HoldfastError
from holdfast.core.principal import Principal
from holdfast.features.identity.sessions.store import WebSession
from holdfast.features.workspaces.model import Workspace

LISTED = 50
"""How many workspaces the navigation names."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A template with what it shows; a whole page, or with `whole` off a part of one that replaces what is there."""

    template: str
    context: Mapping[str, Any]
    whole: bool = True
    status: int = 200


@dataclass(frozen=True, slots=True)
class Redirected:
    """The browser goes on to another page, which shows the notice once."""

    url: str
    notice: str = ""
    cookies: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Sent:
    """Bytes as they are: a download, or what another page's frame shows under a policy of its own."""

    body: bytes
    media_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


Reply = Rendered | Redirected | Sent


@dataclass(frozen=True, slots=True)
class PageView:
    """What a page knows of whoever looks at it."""

    session: WebSession
    cookie: str
    """The session's own cookie: signing out elsewhere and switching organizations need it."""
    principal: Principal
    path: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, Sequence[str]]
    organization: str
    """Its name."""
    workspaces: Sequence[Workspace]
    workspace: Workspace | None
    """The one in the path; where that has none, the one that was looked at last, or the first."""
    language: str
    theme: str
    public_url: str
    is_part: bool
    """Whether a script asks for a part of the page, not a person for the whole."""
    administers: bool = False
    """Whether the person may change how the workspace is set up: an admin of the organization, or its own."""
    since: int = 0
    """The newest event when the page was asked for: a tab that listens goes on from there, and misses nothing."""
    single_keys: bool = True
    """Whether keys without Ctrl or ⌘ do something on this browser."""

    def may(self, access: Access) -> bool:
        """Whether the person has what a page or a form asks; what they may not do is not shown to them."""
        return access.missing(self.principal) is None

    @property
    def listed_workspaces(self) -> Sequence[Workspace]:
        """Those that the navigation names: the first, and the one that is looked at. All are found with the palette."""
        first = self.workspaces[:LISTED]
        return first if self.workspace is None or self.workspace in first else (*first, self.workspace)

    @property
    def ws(self) -> Workspace:
        """The workspace of a page whose path names one."""
        if self.workspace is None:
            raise LookupError("this page's path names no workspace")
        return self.workspace

    def page(self, template: str, title: str, /, *, status: int = 200, **context: Any) -> Rendered:
        """A whole page in the frame."""
        return Rendered(template, {"title": title, **context}, status=status)

    def part(self, template: str, /, *, status: int = 200, **context: Any) -> Rendered:
        """A part of a page, for a script that puts it in its place."""
        return Rendered(template, context, whole=False, status=status)

    def go(self, url: str, notice: str = "", *cookies: str) -> Redirected:
        """Send the browser on after a change."""
        return Redirected(url, notice, cookies)

    def given(self, name: str) -> str:
        """A form's value without space around it; empty where it was left out."""
        values = self.form.get(name)
        return values[0].strip() if values else ""

    def all_given(self, name: str) -> Sequence[str]:
        """A form's values of one name, such as ticked boxes."""
        return [value for value in self.form.get(name, ()) if value]


def field_errors(error: HoldfastError) -> dict[str, str]:
    """What is wrong with a form, by field; the message itself under an empty name."""
    return {"": error.message, **{wrong.field: wrong.message for wrong in error.fields}}
