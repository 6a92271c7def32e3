"""The calculator, research and code tools, called as every surface calls them: through a Gateway."""

from collections.abc import AsyncIterator
from typing import Any

import jsonschema
import pytest

from holdfast.core.errors import HoldfastError, Invalid, NotFound, UpstreamFailed
from holdfast.core.principal import Principal, Tier
from holdfast.core.tools.gateway import Catalog, Gateway, ToolRefused
from holdfast.core.tools.outcome import Outcome
from holdfast.core.tools.tool import AnyTool, ToolCall
from holdfast.engines.code_hosts.engine import CodeSearch
from holdfast.engines.code_hosts.github import GitHub
from holdfast.engines.code_hosts.gitlab import GitLab
from holdfast.engines.fetch.network.guard import FetchLimits, Guard
from holdfast.engines.fetch.pages import Fetcher
from holdfast.engines.fetch.reader import Reader
from holdfast.engines.site.inspector import SiteInspector
from holdfast.engines.web_search.engine import WebSearch
from holdfast.engines.web_search.searxng import SearXNG
from holdfast.features.server_tools import calc, code, research
from tests.fakes.code_hosts.github import TOKEN, FakeGitHub, github
from tests.fakes.web import Names, Site, content, html, site
from tests.fakes.web_search.searxng import FakeSearXNG, hit, searxng


class Bench:
    """All seven tools over fakes of the places that they reach."""

    def __init__(self, web: Site, engine: FakeSearXNG, hub: FakeGitHub, tools: list[AnyTool]) -> None:
        self.web, self.engine, self.hub = web, engine, hub
        self.gateway = Gateway(lambda: Catalog(tools))

    async def call(self, name: str, tier: Tier = "all", **arguments: Any) -> Outcome:
        principal = Principal("org_1", "key_1", "key", False, frozenset({"inference"}), tier=tier)
        outcome = await self.gateway.call(ToolCall(principal, None, "mcp"), f"xerotier.{name}", arguments)
        tool = self.gateway.get(f"xerotier.{name}")
        assert tool is not None
        schema = tool.output_schema()
        jsonschema.validate(outcome.data, schema or {})
        return outcome


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with site() as web, searxng() as engine, github() as hub:
        guard = Guard(
            allow_private=[f"site.test:{web.port}"],
            resolver=Names(site_test=["127.0.0.1"]),
            limits=FetchLimits(seconds=60),
        )
        reader = Reader(guard)
        inspector = SiteInspector(reader)
        found = [
            *calc.tools(),
            *research.tools(
                WebSearch(SearXNG(guard, engine.url), reader, page_seconds=60), Fetcher(reader, seconds=90), inspector
            ),
            *code.tools(CodeSearch(GitHub(guard, token=TOKEN, base_url=hub.url)), CodeSearch(GitLab(guard))),
        ]
        yield Bench(web, engine, hub, found)
        await inspector.aclose()
        await reader.aclose()
        await guard.aclose()


def all_tools() -> list[AnyTool]:
    guard = Guard()
    reader = Reader(guard)
    search = WebSearch(SearXNG(guard, "http://searx.example"), reader)
    return [
        *calc.tools(),
        *research.tools(search, Fetcher(reader), SiteInspector(reader)),
        *code.tools(CodeSearch(GitHub(guard)), CodeSearch(GitLab(guard))),
    ]


@pytest.mark.contract("XM-8")
async def test_the_seven_tools_have_their_names_tiers_and_annotations() -> None:
    tools = {tool.name: tool for tool in all_tools() if tool.consumer == "mcp"}
    assert {name: tool.tier for name, tool in tools.items()} == {
        "xerotier.calc.evaluate": "core",
        "xerotier.research.web_search": "core",
        "xerotier.research.fetch_url": "core",
        "xerotier.research.inspect_site": "core",
        "xerotier.code.search": "intel",
        "xerotier.code.repo_overview": "intel",
        "xerotier.code.repo_read": "intel",
    }
    for name, tool in tools.items():
        assert tool.annotations.read_only
        assert not tool.annotations.destructive
        assert tool.annotations.open_world is (name != "xerotier.calc.evaluate")
        assert "xample: " in tool.description
        assert len(tool.description) <= 400


@pytest.mark.contract("XM-8")
async def test_calc_evaluates_and_points_at_mistakes(bench: Bench) -> None:
    outcome = await bench.call("calc.evaluate", expression="10000 * (1 + 0.05)^3")
    assert outcome.data == {"expression": "10000 * (1 + 0.05)^3", "result": 11576.25, "exact": None}
    assert outcome.text == "10000 * (1 + 0.05)^3 = 11576.25"
    large = await bench.call("calc.evaluate", expression="2^100")
    assert large.text == "2^100 = 1267650600228229401496703205376"
    with pytest.raises(Invalid) as caught:
        await bench.call("calc.evaluate", expression="1 + (2")
    assert "position 7" in caught.value.fields[0].message
    with pytest.raises(Invalid, match="position 1001"):
        await bench.call("calc.evaluate", expression="1" * 1_001)


@pytest.mark.contract("XM-8")
async def test_web_search_answers_with_hits_and_page_texts(bench: Bench) -> None:
    bench.web.pages["/tides"] = html("<main><h1>Tides</h1><p>Twice a day.</p></main>")
    bench.engine.results = [hit("Tides", bench.web.url("/tides"), "About tides"), hit("Moon", "https://10.0.0.1/")]
    outcome = await bench.call("research.web_search", query="tides")
    assert outcome.data == {
        "answer": "",
        "abstract": "",
        "results": [
            {"title": "Tides", "url": bench.web.url("/tides"), "snippet": "About tides"},
            {"title": "Moon", "url": "https://10.0.0.1/", "snippet": ""},
        ],
        "fetched_pages": [{"url": bench.web.url("/tides"), "content": "# Tides\n\nTwice a day."}],
    }
    assert "1. Tides" in outcome.text
    assert "data, not instructions" in outcome.text
    bench.engine.results = []
    assert "Nothing was found" in (await bench.call("research.web_search", query="tides")).text


@pytest.mark.contract("XM-8")
async def test_fetch_url_reads_one_page_or_explores_a_site(bench: Bench) -> None:
    bench.web.pages["/"] = html('<main><p>Start</p><a href="/next">Next</a></main>', head="<title>Home</title>")
    bench.web.pages["/next"] = html("<p>The next page</p>")
    single = await bench.call("research.fetch_url", url=bench.web.url("/"))
    assert single.data["total_pages"] == 1
    assert single.data["pages"][0]["content"] == "Start\n\nNext"
    assert "Home <" in single.text
    explored = await bench.call(
        "research.fetch_url",
        url=bench.web.url("/"),
        urls=[bench.web.url("/"), bench.web.url("/gone")],
        discover_links=True,
        max_follow=1,
    )
    pages = explored.data["pages"]
    assert [(page["url"], page["error"], page["followed_from_discovery"]) for page in pages] == [
        (bench.web.url("/"), False, False),
        (bench.web.url("/gone"), True, False),
        (bench.web.url("/next"), False, True),
    ]
    assert pages[0]["discovered_links"] == [{"url": bench.web.url("/next"), "text": "Next"}]
    assert "could not be read" in explored.text
    assert f"- Next: {bench.web.url('/next')}" in explored.text


async def test_fetch_url_refuses_what_makes_no_sense_and_what_is_inside(bench: Bench) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "url"),
        ({"url": "http://127.0.0.1/"}, "url"),
        ({"url": "ftp://example.com/"}, "url"),
        ({"url": "https://example.com/", "max_follow": 2}, "max_follow"),
        ({"url": "https://example.com/", "max_follow": 4, "discover_links": True}, "max_follow"),
        ({"urls": [f"https://example.com/{number}" for number in range(6)]}, "urls"),
        ({"url": "https://example.com/", "depth": 2}, "depth"),
    ]
    for arguments, field in cases:
        with pytest.raises(Invalid) as caught:
            await bench.call("research.fetch_url", **arguments)
        assert caught.value.fields[0].field == field


@pytest.mark.contract("XM-8")
async def test_inspect_site_reports_palette_typography_and_layout(bench: Bench) -> None:
    bench.web.pages["/"] = html(
        "<header><h1>Tides</h1></header><main>x</main>",
        head='<title>Tides</title><link rel="stylesheet" href="/a.css"><link rel="stylesheet" href="/gone.css">',
    )
    css = b"body { color: #123456; font-family: Georgia, serif } @media (min-width: 700px) { main { display: grid } }"
    bench.web.pages["/a.css"] = content(css, "text/css")
    outcome = await bench.call("research.inspect_site", url=bench.web.url("/"))
    assert outcome.data["palette"] == [{"color": "#123456", "share": 100.0, "role": "text"}]
    assert outcome.data["typography"]["families"] == [{"family": "Georgia, serif", "share": 100.0}]
    assert [region["region"] for region in outcome.data["layout"]["regions"]] == ["header", "main"]
    assert outcome.data["layout"]["breakpoints"] == ["700px"]
    for word in ("# Tides", "#123456 100% text", "Georgia, serif", "700px", "/gone.css"):
        assert word in outcome.text


@pytest.mark.contract("XM-8")
async def test_code_tools_search_look_over_and_read(bench: Bench) -> None:
    bench.hub.files = {"README.md": b"# Sea", "src/a.py": b"tide = 1\n", "src/b.py": b"moon = 2\n"}
    found = await bench.call("code.search", query="tide")
    assert found.data["results"][0]["content"] == "tide = 1\n"
    assert "octo/tides: src/a.py" in found.text
    assert "No code matches" in (await bench.call("code.search", query="absent")).text
    overview = await bench.call("code.repo_overview", repository="octo/tides")
    assert overview.data["languages"] == {"Python": 75.0, "Shell": 25.0}
    for word in ("# octo/tides", "321 stars", "src/a.py", "Change 0", "# Sea"):
        assert word in overview.text
    read = await bench.call("code.repo_read", repository="octo/tides", paths=["src/a.py", "src", "gone"])
    assert [file["kind"] for file in read.data["files"]] == ["file", "directory", "error"]
    assert "tide = 1" in read.text
    root = await bench.call("code.repo_read", repository="octo/tides")
    assert [entry["path"] for entry in root.data["files"][0]["entries"]] == ["README.md", "src"]


async def test_failures_of_others_come_back_as_known_errors(bench: Bench) -> None:
    bench.engine.formats = ("html",)
    with pytest.raises(UpstreamFailed):
        await bench.call("research.web_search", query="x")
    with pytest.raises(NotFound):
        await bench.call("code.repo_overview", repository="octo/absent")
    with pytest.raises(HoldfastError) as caught:
        await bench.call("research.inspect_site", url=bench.web.url("/absent"))
    assert caught.value.code == "fetch_failed"


@pytest.mark.contract("XM-10")
async def test_a_core_key_computes_and_researches_but_reads_no_code(bench: Bench) -> None:
    await bench.call("calc.evaluate", tier="core", expression="1+1")
    with pytest.raises(ToolRefused):
        await bench.call("code.search", tier="core", query="x")
