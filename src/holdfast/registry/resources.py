"""Owns Resource and ResourceTemplate: what agents read at an address, declared by the feature that keeps it."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import parse_qsl, unquote

from holdfast.core.access import Access
from holdfast.core.errors import FieldError, Forbidden, Invalid, NotFound
from holdfast.core.paging import Page, decode_cursor, encode_cursor
from holdfast.core.principal import Principal
from holdfast.registry.content import MARKDOWN, Content
from holdfast.registry.prompts import Complete

EVERYWHERE = ""
"""In the place of a workspace's id: all that the principal sees."""
Arguments = Mapping[str, str]
"""What an address says in the places that its template leaves open."""
Read = Callable[[Principal, str, Arguments], Awaitable[Content]]
"""What is at an address in a workspace; NotFound where there is nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedResource:
    """One thing in the list of resources."""

    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = MARKDOWN
    size_bytes: int | None = None


ListPage = Callable[[Principal, str, int, str | None], Awaitable[Page[ListedResource]]]
"""At most so many of a workspace's things of one kind, from a cursor on."""


def _anything(arguments: Arguments) -> None:
    """Every address is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One thing at one address: there is always exactly one in a workspace."""

    uri: str
    name: str
    title: str
    description: str
    access: Access
    read: Read
    mime_type: str = MARKDOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTemplate:
    """Many things of a kind, such as `xerotier://memory/{slug}`, or one in parts: `…/decisions{?since,limit}`."""

    uri_template: str
    name: str
    title: str
    access: Access
    read: Read
    mime_type: str | None = MARKDOWN
    """None where each has its own."""
    description: str = ""
    page: ListPage | None = None
    """Lists them; None where nobody could."""
    complete: Mapping[str, Complete] = field(default_factory=dict)
    """What fits an argument that somebody has begun to write."""
    check: Callable[[Arguments], None] = _anything
    """Raises Invalid for arguments that no address can have."""

    def match(self, uri: str) -> Arguments | None:
        """What an address says in the open places; None for an address of something else."""
        base, _, query = uri.partition("?")
        path, _, asked = self.uri_template.partition("{?")
        pattern = "".join(
            f"(?P<{part[1:-1]}>[^/]+)" if part.startswith("{") else re.escape(part)
            for part in re.split(r"(\{\w+\})", path)
        )
        found = re.fullmatch(pattern, base)
        if found is None:
            return None
        arguments = {name: unquote(value) for name, value in found.groupdict().items()}
        if any("/" in value for value in arguments.values()):
            return None
        known = asked.rstrip("}").split(",")
        given = parse_qsl(query, keep_blank_values=True)
        return arguments | {name: value for name, value in given if name in known and value}


@dataclass(frozen=True, slots=True)
class FoundResource:
    """What an address names."""

    declared: Resource | ResourceTemplate
    arguments: Arguments

    async def read(self, principal: Principal, workspace_id: str) -> Content:
        """What is there now."""
        return await self.declared.read(principal, workspace_id, self.arguments)


class ResourceNotFound(NotFound):
    """Nothing is at that address, and nothing could be."""

    def __init__(self, uri: str) -> None:
        super().__init__("resource", uri)


class ResourceRefused(Forbidden):
    """The resource exists, but not for this credential."""


class Resources:
    """Every resource that the features bring. Made when first used: most commands need none."""

    def __init__(
        self, resources: Callable[[], Iterable[Resource | ResourceTemplate]], *, everywhere: bool = False
    ) -> None:
        """`everywhere`: without a workspace they show all that the reader sees, and are told EVERYWHERE."""
        self._declared = resources
        self.everywhere = everywhere

    @cached_property
    def all(self) -> tuple[Resource | ResourceTemplate, ...]:
        """What was declared, in the features' order."""
        found = tuple(self._declared())
        addresses = [each.uri if isinstance(each, Resource) else each.uri_template for each in found]
        twice = {address for address in addresses if addresses.count(address) > 1}
        if twice:
            raise ValueError(f"two resources are at {sorted(twice)}")
        return found

    def fixed(self, principal: Principal) -> list[Resource]:
        """Those at one address that this principal may read."""
        return [each for each in self.all if isinstance(each, Resource) and each.access.missing(principal) is None]

    def templates(self, principal: Principal) -> list[ResourceTemplate]:
        """Those at many addresses that this principal may read."""
        return [
            each for each in self.all if isinstance(each, ResourceTemplate) and each.access.missing(principal) is None
        ]

    def find(self, principal: Principal, uri: str) -> FoundResource:
        """What an address names: ResourceNotFound, ResourceRefused, or Invalid for a query that cannot be read."""
        found = self._named(uri)
        if found is None:
            raise ResourceNotFound(uri)
        missing = found.declared.access.missing(principal)
        if missing is not None:
            raise ResourceRefused(f"The resource {uri[:200]} is not for this credential. {missing}")
        if isinstance(found.declared, ResourceTemplate):
            found.declared.check(found.arguments)
        return found

    def _named(self, uri: str) -> FoundResource | None:
        fixed = {each.uri: each for each in self.all if isinstance(each, Resource)}
        if uri in fixed:
            return FoundResource(fixed[uri], {})
        for each in self.all:
            if isinstance(each, ResourceTemplate) and (arguments := each.match(uri)) is not None:
                return FoundResource(each, arguments)
        # A query that nobody reads changes nothing.
        base = uri.partition("?")[0]
        return FoundResource(fixed[base], {}) if base in fixed else None

    async def page(
        self, principal: Principal, workspace_id: str | None, *, limit: int, cursor: str | None
    ) -> Page[ListedResource]:
        """The list: first what is at one address, then each kind's things; a page is full while there are more."""
        kinds = {each.name: each.page for each in self.templates(principal) if each.page is not None}
        found: list[ListedResource] = []
        kind, inner = ("", None) if cursor is None else _position(cursor, kinds)
        if cursor is None:
            found = [_listed(each) for each in self.fixed(principal)]
        if workspace_id is None and not self.everywhere:
            return Page(found)
        place = workspace_id or EVERYWHERE
        names = list(kinds)
        for name in names[names.index(kind) if kind else 0 :]:
            # A kind that would begin on the next page is asked for one: a cursor never leads to nothing.
            room = max(limit - len(found), 0)
            page = await kinds[name](principal, place, room or 1, inner)
            if not room:
                if page.items:
                    return Page(found, encode_cursor(name, ""))
                continue
            found += page.items
            inner = None
            if page.next_cursor is not None:
                return Page(found, encode_cursor(name, page.next_cursor))
        return Page(found)

    async def complete(
        self, principal: Principal, workspace_id: str, uri_template: str, argument: str, value: str
    ) -> Sequence[str]:
        """What fits the value of a template's argument; nothing for what this principal may not read."""
        for each in self.templates(principal):
            if each.uri_template == uri_template and argument in each.complete:
                return await each.complete[argument](principal, workspace_id, value)
        return ()


def _listed(each: Resource) -> ListedResource:
    return ListedResource(
        uri=each.uri, name=each.name, title=each.title, description=each.description, mime_type=each.mime_type
    )


def _position(cursor: str, kinds: Mapping[str, object]) -> tuple[str, str | None]:
    kind, inner = decode_cursor(cursor, str, str)
    if kind not in kinds:
        problem = "not a cursor from this list; leave it out to start from the beginning"
        raise Invalid("The cursor could not be read.", fields=[FieldError("cursor", problem)])
    return str(kind), str(inner) or None
