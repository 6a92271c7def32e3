"""Resources and prompts as features declare them: which address is whose, and how the list goes from page to page."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.access import READ, READ_INTEL
from holdfast.core.errors import Invalid
from holdfast.core.paging import Page, encode_cursor
from holdfast.core.principal import SCOPES, Principal, Tier
from holdfast.registry.content import Content
from holdfast.registry.methods import Method, Methods
from holdfast.registry.prompts import Prompt, PromptCall, Prompts
from holdfast.registry.resources import (
    Arguments,
    ListedResource,
    ListPage,
    Resource,
    ResourceNotFound,
    ResourceRefused,
    Resources,
    ResourceTemplate,
)
from tests.support.properties import examples


def key(tier: Tier = "all") -> Principal:
    return Principal("org_1", "key_1", "key", is_person=False, scopes=frozenset(SCOPES), tier=tier)


async def read(principal: Principal, workspace_id: str, arguments: Arguments) -> Content:
    return Content(repr(dict(arguments)))


def fixed(uri: str = "sea://tide") -> Resource:
    return Resource(uri=uri, name=uri, title="", description="", access=READ, read=read)


def template(uri_template: str, name: str = "thing", page: ListPage | None = None) -> ResourceTemplate:
    return ResourceTemplate(uri_template=uri_template, name=name, title="", access=READ, read=read, page=page)


def numbered(name: str, count: int) -> ListPage:
    """A kind with so many things, which its own cursor counts."""

    async def page(principal: Principal, workspace_id: str, limit: int, cursor: str | None) -> Page[ListedResource]:
        begin = int(cursor or 0)
        end = min(begin + limit, count)
        items = [ListedResource(uri=f"sea://{name}/{number}", name=str(number)) for number in range(begin, end)]
        return Page(items, str(end) if end < count else None)

    return page


def resources(*declared: Resource | ResourceTemplate) -> Resources:
    return Resources(lambda: declared)


MATCHES: list[tuple[str, str, dict[str, str] | None]] = [
    ("sea://{id}", "sea://7", {"id": "7"}),
    ("sea://{id}", "sea://a%20b", {"id": "a b"}),
    ("sea://{id}", "sea://", None),
    ("sea://{id}", "sea://a/b", None),
    ("sea://{id}", "sea://a%2Fb", None),
    ("sea://{id}", "land://7", None),
    ("sea://{id}", "sea://7?x=1", {"id": "7"}),
    ("sea://{id}/data", "sea://7/data", {"id": "7"}),
    ("sea://{id}/data", "sea://7/datum", None),
    ("sea://a.b/{id}", "sea://aXb/7", None),
    ("sea://tides{?since,limit}", "sea://tides", {}),
    ("sea://tides{?since,limit}", "sea://tides?limit=3&x=1&since=", {"limit": "3"}),
    ("sea://{id}{?since}", "sea://7?since=1d", {"id": "7", "since": "1d"}),
]


@pytest.mark.parametrize(("uri_template", "uri", "arguments"), MATCHES)
def test_a_template_takes_its_own_addresses(uri_template: str, uri: str, arguments: dict[str, str] | None) -> None:
    assert template(uri_template).match(uri) == arguments


def test_what_stands_at_one_address_goes_before_a_template() -> None:
    both = resources(template("sea://{id}"), fixed("sea://tide"))
    assert isinstance(both.find(key(), "sea://tide").declared, Resource)
    assert both.find(key(), "sea://7").arguments == {"id": "7"}
    assert isinstance(resources(fixed("sea://tide")).find(key(), "sea://tide?x=1").declared, Resource)


def test_what_cannot_be_found_or_read_says_why() -> None:
    closed = Resource(uri="sea://deep", name="", title="", description="", access=READ_INTEL, read=read)
    with pytest.raises(ResourceNotFound):
        resources(closed).find(key(), "sea://shallow")
    with pytest.raises(ResourceRefused, match=r"sea://deep is not for this credential\. .*tier 'core'"):
        resources(closed).find(key("core"), "sea://deep")


@examples(200)
@given(
    at_one_address=st.integers(0, 3),
    counts=st.lists(st.integers(0, 9), max_size=4),
    limit=st.integers(1, 6),
)
def test_every_page_but_the_last_is_full_and_everything_is_listed_once(
    at_one_address: int, counts: list[int], limit: int
) -> None:
    kinds = [template(f"sea://{n}/{{id}}", f"kind{n}", numbered(str(n), count)) for n, count in enumerate(counts)]
    every = resources(*(fixed(f"sea://fixed{n}") for n in range(at_one_address)), *kinds)

    async def pages() -> list[Page[ListedResource]]:
        found = [await every.page(key(), "ws_1", limit=limit, cursor=None)]
        while (cursor := found[-1].next_cursor) is not None:
            found.append(await every.page(key(), "ws_1", limit=limit, cursor=cursor))
        return found

    found = asyncio.run(pages())
    # What stands at one address is never split: there are few of them.
    assert all(len(page.items) >= limit for page in found[:-1])
    assert all(len(page.items) == limit for page in found[1:-1])
    assert found[-1].items or len(found) == 1
    listed = [each.uri for page in found for each in page.items]
    things = [f"sea://{n}/{number}" for n, count in enumerate(counts) for number in range(count)]
    assert listed == [f"sea://fixed{n}" for n in range(at_one_address)] + things


async def test_a_cursor_of_another_list_is_refused() -> None:
    every = resources(template("sea://{id}", "thing", numbered("thing", 3)))
    for cursor in ("nonsense", encode_cursor("another", ""), encode_cursor(7)):
        with pytest.raises(Invalid, match="The cursor could not be read"):
            await every.page(key(), "ws_1", limit=2, cursor=cursor)


async def write(call: PromptCall) -> str:
    return ""


async def answer(principal: Principal, params: object) -> dict[str, object]:
    return {}


def test_two_features_cannot_bring_the_same() -> None:
    prompt = Prompt(name="tide", title="", description="", access=READ, write=write)
    for made, named in (
        (lambda: resources(fixed(), fixed()).all, "sea://tide"),
        (lambda: resources(template("sea://{id}"), template("sea://{id}")).all, r"sea://\{id\}"),
        (lambda: Prompts(lambda: [prompt, prompt]).all, "tide"),
        (lambda: Methods(lambda: [Method("sea/tide", answer)] * 2).all, "sea/tide"),
    ):
        with pytest.raises(ValueError, match=f"two .*{named}"):
            made()
