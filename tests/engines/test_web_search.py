"""Web search: each back end's format becomes one, and the top two pages come along within their budget."""

from collections.abc import AsyncIterator

import pytest

from holdfast.core.errors import Invalid, RateLimited, UpstreamFailed
from holdfast.engines.fetch.network.guard import FetchLimits, Guard
from holdfast.engines.fetch.reader import Reader
from holdfast.engines.web_search.backends import backend as chosen
from holdfast.engines.web_search.brave import Brave
from holdfast.engines.web_search.engine import CHARACTERS, WebSearch
from holdfast.engines.web_search.keyless import Keyless
from holdfast.engines.web_search.model import WebHit
from holdfast.engines.web_search.searxng import SearXNG
from holdfast.engines.web_search.tavily import Tavily
from tests.fakes.web import Names, Site, html, site
from tests.fakes.web_search.brave import TOKEN, brave
from tests.fakes.web_search.searxng import hit, searxng
from tests.fakes.web_search.tavily import KEY, tavily


@pytest.fixture
async def web() -> AsyncIterator[Site]:
    async with site() as found:
        yield found


@pytest.fixture
async def reader(web: Site) -> AsyncIterator[Reader]:
    guard = Guard(
        allow_private=[f"site.test:{web.port}"], resolver=Names(site_test=["127.0.0.1"]), limits=FetchLimits(seconds=60)
    )
    made = Reader(guard)
    yield made
    await made.aclose()


@pytest.mark.contract("XS-T1")
async def test_searxng_gives_answer_abstract_results_and_the_two_top_pages(web: Site, reader: Reader) -> None:
    web.pages["/one"] = html("<main><p>" + "one " * 5_000 + "</p></main>")
    web.pages["/two"] = html("<main><p>" + "two " * 5_000 + "</p></main>")
    web.pages["/three"] = html("<p>three</p>")
    async with searxng() as fake:
        fake.results = [
            hit("One", web.url("/one"), "first &amp; <b>best</b>"),
            hit("One again", web.url("/one/")),
            hit("Two", web.url("/two")),
            hit("Three", web.url("/three")),
            hit("Not a page", "magnet:?xt=1"),
        ]
        fake.answers = [{"answer": "42", "template": "answer/legacy.html"}]
        fake.infoboxes = [{"infobox": "Tides", "content": "Tides are the rise and fall of the sea."}]
        engine = WebSearch(SearXNG(Guard(), fake.url), reader, page_seconds=60)
        found = await engine.search("  high\n tides ")
    assert fake.queries == ["high tides"]
    assert (found.answer, found.abstract, found.backend) == (
        "42",
        "Tides are the rise and fall of the sea.",
        "SearXNG",
    )
    assert [result.title for result in found.results] == ["One", "Two", "Three"]
    assert found.results[0] == WebHit("One", web.url("/one"), "first & best")
    assert [page.url for page in found.fetched_pages] == [web.url("/one"), web.url("/two")]
    assert all(CHARACTERS // 2 - 5 <= len(page.content) <= CHARACTERS // 2 for page in found.fetched_pages)
    await reader.read(web.url("/one"))
    assert web.asked.count("/one") == 1, "a page that the search read is free to fetch"


@pytest.mark.contract("XS-T1")
async def test_a_hit_that_cannot_be_read_stays_a_hit(web: Site, reader: Reader) -> None:
    web.pages["/good"] = html("<p>good</p>")
    async with searxng() as fake:
        fake.results = [hit("Inside", "http://10.0.0.1/"), hit("Good", web.url("/good")), hit("More", web.url("/more"))]
        found = await WebSearch(SearXNG(Guard(), fake.url), reader, page_seconds=60).search("x")
    assert len(found.results) == 3
    assert [(page.url, page.content) for page in found.fetched_pages] == [(web.url("/good"), "good")]


@pytest.mark.contract("XS-T1")
async def test_brave_speaks_its_format_and_its_limits_are_told() -> None:
    async with brave() as fake:
        fake.results = [
            {"title": f"T{number}", "url": f"https://e{number}.example/", "description": "a <strong>b</strong>"}
            for number in range(25)
        ]
        backend = Brave(Guard(), TOKEN, fake.url)
        found = await backend.search("tides", 20)
        assert len(found.results) == 20
        assert found.results[0].snippet == "a b"
        fake.left = 0
        with pytest.raises(RateLimited, match="in 1 seconds") as caught:
            await backend.search("tides", 5)
        assert caught.value.headers == {"Retry-After": "1"}
        with pytest.raises(UpstreamFailed, match="subscription token"):
            await Brave(Guard(), "wrong", fake.url).search("tides", 5)


@pytest.mark.contract("XS-T1")
async def test_tavily_speaks_its_format_and_its_limits_are_told() -> None:
    async with tavily() as fake:
        fake.results = [{"title": "T", "url": "https://e.example/", "content": "text", "score": 0.9}]
        fake.short_answer = "Twice a day."
        found = await Tavily(Guard(), KEY, fake.url).search("tides", 5)
        assert (found.answer, found.results) == ("Twice a day.", (WebHit("T", "https://e.example/", "text"),))
        with pytest.raises(UpstreamFailed, match="refused our credential"):
            await Tavily(Guard(), "wrong", fake.url).search("tides", 5)
        for status in (429, 432):
            fake.status = status
            with pytest.raises(RateLimited):
                await Tavily(Guard(), KEY, fake.url).search("tides", 5)


async def test_a_searxng_without_json_says_what_to_change() -> None:
    async with searxng() as fake:
        fake.formats = ("html",)
        with pytest.raises(UpstreamFailed, match=r"search\.formats"):
            await SearXNG(Guard(), fake.url).search("x", 5)


async def test_a_backend_that_is_no_search_engine_is_told_apart(web: Site) -> None:
    web.pages["/search"] = html("hello")
    with pytest.raises(UpstreamFailed, match="no usable JSON"):
        await SearXNG(Guard(), f"http://127.0.0.1:{web.port}").search("x", 5)


async def test_an_empty_or_endless_query_is_refused(reader: Reader) -> None:
    engine = WebSearch(Keyless(), reader)
    for query in ("  ", "x" * 401):
        with pytest.raises(Invalid) as caught:
            await engine.search(query)
        assert caught.value.fields[0].field == "query"


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        ("DDGSException('DNSError: no records')", UpstreamFailed),
        ("TimeoutException('slow')", UpstreamFailed),
        ("RatelimitException('202')", RateLimited),
    ],
)
async def test_the_keyless_search_fails_in_words(
    raised: str, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ddgs import exceptions

    from holdfast.engines.web_search import keyless

    def fail(query: str, count: int) -> None:
        raise eval(raised, vars(exceptions))

    monkeypatch.setattr(keyless, "_ask", fail)
    with pytest.raises(kind):
        await Keyless().search("x", 5)


async def test_the_keyless_search_reads_ddgs_results(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.engines.web_search import keyless

    hits = [{"title": "T", "href": "https://e.example/", "body": "text"}, {"title": "no address"}]
    monkeypatch.setattr(keyless, "_ask", lambda query, count: hits)
    assert (await Keyless().search("x", 5)).results == (WebHit("T", "https://e.example/", "text"),)


async def test_a_back_end_is_chosen_by_name_and_not_without_what_it_needs() -> None:
    guard = Guard()
    assert isinstance(chosen("ddgs", guard), Keyless)
    assert isinstance(chosen("searxng", guard, url="http://searx.example"), SearXNG)
    assert isinstance(chosen("brave", guard, key="k"), Brave)
    assert isinstance(chosen("tavily", guard, key="k"), Tavily)
    for name in ("searxng", "brave", "tavily", "altavista"):
        with pytest.raises(ValueError, match=name):
            chosen(name, guard)
