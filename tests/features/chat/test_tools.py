"""The tools as a model calls them in a chat: results, budgets, errors, the limit and the cache."""

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from holdfast.core.errors import HoldfastError, RateLimited
from holdfast.core.principal import Principal
from holdfast.core.tools.gateway import Catalog, Gateway
from holdfast.core.tools.outcome import Outcome
from holdfast.core.tools.tool import ToolCall
from holdfast.engines.code_hosts.engine import CodeSearch
from holdfast.engines.code_hosts.github import GitHub
from holdfast.engines.code_hosts.gitlab import GitLab
from holdfast.engines.fetch.network.guard import FetchLimits, Guard
from holdfast.engines.fetch.pages import Fetcher
from holdfast.engines.fetch.reader import Reader
from holdfast.engines.llm.model import LoopTool
from holdfast.engines.llm.offered import Offer, loop_tool
from holdfast.engines.site.inspector import SiteInspector
from holdfast.engines.web import WebAccess
from holdfast.engines.web_search.engine import WebSearch
from holdfast.engines.web_search.searxng import SearXNG
from holdfast.features.server_tools import aliases, calc, code, research
from holdfast.features.server_tools.budget import ResearchBudget
from holdfast.storage.database import Database
from tests.conftest import OpenDatabase
from tests.fakes.code_hosts.github import TOKEN, FakeGitHub, github
from tests.fakes.code_hosts.gitlab import PROJECT, FakeGitLab, gitlab
from tests.fakes.code_hosts.gitlab import TOKEN as GITLAB_TOKEN
from tests.fakes.web import Names, Site, html, site
from tests.fakes.web_search.searxng import FakeSearXNG, hit, searxng
from tests.support.clock import MovableClock
from tests.support.world import new_world


class Bench:
    """The research tools of one project over fakes of the places that they reach."""

    def __init__(self, web: Site, engine: FakeSearXNG, hub: FakeGitHub, lab: FakeGitLab, access: WebAccess) -> None:
        self.web, self.engine, self.hub, self.lab, self.access = web, engine, hub, lab, access
        self.tools: dict[str, LoopTool] = {}

    def use(self, database: Database, clock: MovableClock, project_id: str, calls_per_minute: int = 45) -> None:
        budget = ResearchBudget(database, clock, calls_per_minute=calls_per_minute)
        web = self.access
        tools = [
            *calc.tools(),
            *research.tools(web.search, web.fetcher, web.inspector),
            *code.tools(web.github, web.gitlab),
        ]
        gateway = Gateway(lambda: Catalog(tools, aliases.aliases(budget)))
        principal = Principal("org_1", "key_1", "key", False, frozenset({"inference"}))
        call = ToolCall(principal, "ws_1", "chat", project_id=project_id)
        made = gateway.visible_aliases(principal, "chat").values()
        fixed = {"web_search": {"max_results": 8}}
        self.tools = {alias.name: loop_tool(gateway, call, Offer(alias, fixed.get(alias.name, {}))) for alias in made}

    async def run(self, name: str, **arguments: Any) -> Outcome:
        return await self.tools[name].run(arguments)

    async def json(self, name: str, **arguments: Any) -> Any:
        return json.loads((await self.run(name, **arguments)).text)

    async def error(self, name: str, **arguments: Any) -> str:
        with pytest.raises(HoldfastError) as caught:
            await self.run(name, **arguments)
        return " ".join([caught.value.message, *(f"{each.field}: {each.message}" for each in caught.value.fields)])


@pytest.fixture
async def outside() -> AsyncIterator[Bench]:
    async with site() as web, searxng() as engine, github() as hub, gitlab() as lab:
        guard = Guard(
            allow_private=[f"site.test:{web.port}"],
            resolver=Names(site_test=["127.0.0.1"]),
            limits=FetchLimits(seconds=60),
        )
        reader = Reader(guard)
        access = WebAccess(
            guard=guard,
            reader=reader,
            fetcher=Fetcher(reader, seconds=90),
            inspector=SiteInspector(reader),
            search=WebSearch(SearXNG(guard, engine.url), reader, page_seconds=60),
            github=CodeSearch(GitHub(guard, token=TOKEN, base_url=hub.url)),
            gitlab=CodeSearch(GitLab(guard, token=GITLAB_TOKEN, base_url=lab.url)),
        )
        yield Bench(web, engine, hub, lab, access)
        await access.close()


@pytest.fixture
async def project_id(database: Database, clock: MovableClock) -> str:
    return (await new_world(database, clock)).start.project_id


@pytest.fixture
async def bench(outside: Bench, database: Database, clock: MovableClock, project_id: str) -> Bench:
    outside.use(database, clock, project_id)
    return outside


@pytest.mark.contract("XS-7")
async def test_each_tool_tells_its_event_and_takes_its_parameters(bench: Bench) -> None:
    assert {name: (tool.event, tool.research) for name, tool in bench.tools.items()} == {
        "web_search": ("x_research.searching", True),
        "fetch_url": ("x_research.reading", True),
        "code_search": ("x_research.code_searching", True),
        "gitlab_code_search": ("x_research.code_searching", True),
        "calculator": ("x_research.calculating", True),
    }
    assert {name: sorted(tool.parameters["properties"]) for name, tool in bench.tools.items()} == {
        "web_search": ["query"],
        "fetch_url": ["discover_links", "max_follow", "url", "urls"],
        "code_search": ["language", "max_results", "path", "paths", "query", "repository"],
        "gitlab_code_search": ["language", "max_results", "path", "paths", "query", "repository"],
        "calculator": ["expression"],
    }
    assert bench.tools["web_search"].parameters["required"] == ["query"]
    assert bench.tools["code_search"].parameters["properties"]["max_results"]["maximum"] == 30
    assert bench.tools["gitlab_code_search"].parameters["properties"]["max_results"]["maximum"] == 20


@pytest.mark.contract("XS-T1")
async def test_web_search_gives_hits_and_the_best_two_pages_within_the_budget(bench: Bench) -> None:
    bench.web.pages["/a"] = html(f"<main><h1>Tides</h1><p>{'high water ' * 2_000}</p></main>")
    bench.web.pages["/b"] = html(f"<main><p>{'low water ' * 2_000}</p></main>")
    bench.engine.results = [hit(name, bench.web.url(f"/{name}"), f"About {name}") for name in ("a", "b", "c")]
    outcome = await bench.run("web_search", query="tides")
    found = json.loads(outcome.text)
    assert list(found) == ["answer", "abstract", "results", "fetched_pages"]
    assert found["results"][0] == {"title": "a", "url": bench.web.url("/a"), "snippet": "About a"}
    assert [page["url"] for page in found["fetched_pages"]] == [bench.web.url("/a"), bench.web.url("/b")]
    assert all(5_900 < len(page["content"]) <= 6_000 for page in found["fetched_pages"])
    assert outcome.untrusted
    assert outcome.sources == 3


@pytest.mark.contract("XS-5")
async def test_a_page_that_a_search_read_is_free_and_whole_afterwards(bench: Bench) -> None:
    bench.web.pages["/a"] = html(f"<main><p>{'high water ' * 1_000}</p></main>")
    bench.engine.results = [hit("a", bench.web.url("/a")), hit("b", bench.web.url("/b"))]
    await bench.run("web_search", query="tides")
    asked = bench.web.asked.count("/a")
    page = await bench.run("fetch_url", url=bench.web.url("/a"))
    assert len(page.text) > 10_000
    assert page.untrusted
    assert bench.web.asked.count("/a") == asked


@pytest.mark.contract("XS-T2")
async def test_fetch_url_gives_text_for_one_page_and_json_for_several(bench: Bench) -> None:
    bench.web.pages["/"] = html('<main><p>Start</p><a href="/next">Next</a></main>')
    bench.web.pages["/next"] = html("<p>The next page</p>")
    single = await bench.run("fetch_url", url=bench.web.url("/"))
    assert (single.text, single.sources, single.untrusted) == ("Start\n\nNext", 1, True)
    several = await bench.json("fetch_url", url=bench.web.url("/"), urls=[bench.web.url("/"), bench.web.url("/gone")])
    assert several["discover_links_enabled"] is False
    assert several["total_pages"] == 2
    assert several["pages"][0] == {"url": bench.web.url("/"), "content": "Start\n\nNext", "error": False}
    assert several["pages"][1]["error"] is True
    explored = await bench.json("fetch_url", url=bench.web.url("/"), discover_links=True, max_follow=1)
    assert explored == {
        "discover_links_enabled": True,
        "total_pages": 2,
        "pages": [
            {
                "url": bench.web.url("/"),
                "content": "Start\n\nNext",
                "error": False,
                "discovered_links": [{"url": bench.web.url("/next"), "text": "Next"}],
            },
            {
                "url": bench.web.url("/next"),
                "content": "The next page",
                "error": False,
                "followed_from_discovery": True,
            },
        ],
    }


@pytest.mark.contract("XS-T2")
async def test_fetch_url_shares_24000_characters_and_refuses_what_is_inside(bench: Bench) -> None:
    for number in range(5):
        bench.web.pages[f"/{number}"] = html(f"<p>{'wide water ' * 3_000}</p>")
    urls = [bench.web.url(f"/{number}") for number in range(5)]
    found = await bench.json("fetch_url", urls=urls)
    assert sum(len(page["content"]) for page in found["pages"]) <= 24_000
    assert all(len(page["content"]) > 4_700 for page in found["pages"])
    assert "1 to 5 URLs" in await bench.error("fetch_url", urls=[*urls, bench.web.url("/5")])
    assert "give a url" in await bench.error("fetch_url")
    for address in ("http://10.0.0.1/", "http://127.0.0.1/", "http://169.254.169.254/", "http://[::1]/"):
        await bench.error("fetch_url", url=address)


@pytest.mark.contract("XS-T3")
async def test_code_search_searches_reviews_and_browses_github(bench: Bench) -> None:
    bench.hub.files = {"README.md": b"# Sea", "src/a.py": b"tide = 1\n", "src/b.py": b"moon = 2\n"}
    found = await bench.json("code_search", query="tide", language="python", max_results=3)
    assert found["results"][0]["repository"] == "octo/tides"
    assert found["results"][0]["content"] == "tide = 1\n"
    review = await bench.json("code_search", repository="octo/tides")
    assert review["readme"] == "# Sea"
    assert {"languages", "tree", "recent_commits"} <= review.keys()
    browsed = await bench.json("code_search", repository="octo/tides", path="src", paths=["src/b.py", "gone"])
    assert [file["kind"] for file in browsed["files"]] == ["directory", "file", "error"]
    assert "either a query or a repository" in await bench.error("code_search", query="x", repository="octo/tides")
    assert "either a query or a repository" in await bench.error("code_search", path="src")
    assert "max_results" in await bench.error("code_search", query="x", max_results=31)


@pytest.mark.contract("XS-T4")
async def test_gitlab_code_search_has_the_same_three_modes(bench: Bench) -> None:
    bench.lab.files = {"README.md": b"# Sea", "src/a.py": b"tide = 1\n"}
    assert (await bench.json("gitlab_code_search", query="tide"))["results"][0]["path"] == "src/a.py"
    assert (await bench.json("gitlab_code_search", repository=PROJECT))["readme"] == "# Sea"
    browsed = await bench.json("gitlab_code_search", repository=PROJECT, path="src/a.py")
    assert browsed["files"][0]["content"] == "tide = 1\n"
    assert "max_results" in await bench.error("gitlab_code_search", query="x", max_results=21)


@pytest.mark.contract("XS-T5")
async def test_the_calculator_answers_with_the_expression_and_points_at_mistakes(bench: Bench) -> None:
    expression = "10000 * (1 + 0.05)^3"
    assert await bench.json("calculator", expression=expression) == {"expression": expression, "result": 11576.25}
    for expression, result in (
        ("sqrt(144) + 2^3", "20.0"),
        ("sin(pi/2)", "1.0"),
        ("log(1000)", "3.0"),
        ("max(42, 17) * min(3, 5)", "126.0"),
        ("abs(-273.15) + ceil(2.1)", "276.15"),
        ("1 - 1", "0.0"),
        ("-7", "-7.0"),
    ):
        assert (await bench.run("calculator", expression=expression)).text.endswith(f'"result":{result}}}')
    huge = await bench.json("calculator", expression="2^100")
    assert (huge["result"], huge["exact"]) == (2.0**100, str(2**100))
    assert "position 7" in await bench.error("calculator", expression="1 + (2")
    assert "expression" in await bench.error("calculator", formula="1 + 1")


@pytest.mark.contract("XS-5")
async def test_the_46th_call_of_a_minute_is_refused_in_the_documented_words(bench: Bench, clock: MovableClock) -> None:
    for number in range(45):
        await bench.json("calculator", expression=f"{number} + 1")
    assert await bench.error("calculator", expression="99") == (
        "Research tool rate limit exceeded. Try again in 60 seconds."
    )
    # What was asked before is answered still, and nobody else is held up.
    assert (await bench.json("calculator", expression="7 + 1"))["result"] == 8
    clock.advance(seconds=61)
    await bench.json("calculator", expression="99")


@pytest.mark.contract("XS-5")
async def test_no_stretch_of_sixty_seconds_has_more_than_45_calls(bench: Bench, clock: MovableClock) -> None:
    ran: list[int] = []
    for number in range(300):
        with suppress(RateLimited):
            await bench.run("calculator", expression=f"{number} + 1")
            ran.append(clock.now())
        clock.advance(seconds=0.7)
    assert max(sum(1 for at in ran if begin <= at < begin + 60_000) for begin in ran) == 45
    assert len(ran) >= 45 * 3


@pytest.mark.contract("XS-5")
async def test_identical_calls_are_answered_once_in_five_minutes_by_all_replicas(
    outside: Bench, open_database: OpenDatabase, database: Database, clock: MovableClock, project_id: str
) -> None:
    outside.engine.results = [hit("Tides", "https://10.0.0.1/")]
    replica = open_database()
    try:
        outside.use(database, clock, project_id, calls_per_minute=3)
        first = await outside.run("web_search", query="tides")
        outside.use(replica, clock, project_id, calls_per_minute=3)
        assert (await outside.run("web_search", query="  tides ")) == first
        assert outside.engine.queries == ["tides"]
        # Limits hold over replicas too: two are left of three.
        await outside.json("calculator", expression="1")
        await outside.json("calculator", expression="2")
        assert "rate limit exceeded" in await outside.error("calculator", expression="3")
        clock.advance(seconds=301)
        await outside.run("web_search", query="tides")
        assert outside.engine.queries == ["tides", "tides"]
    finally:
        await replica.close()


async def test_failures_are_told_and_not_kept(bench: Bench) -> None:
    bench.engine.formats = ("html",)
    await bench.error("web_search", query="tides")
    bench.engine.formats = ("html", "json")
    assert (await bench.json("web_search", query="tides"))["results"] == []
