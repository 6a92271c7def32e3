"""Inspecting a page: palette with shares, typography, layout and metadata from HTML and CSS alone."""

from collections.abc import AsyncIterator

import pytest
import tinycss2

from holdfast.engines.fetch.network.connect import Blocked
from holdfast.engines.fetch.network.guard import FetchFailed, FetchLimits, Guard
from holdfast.engines.fetch.reader import Reader
from holdfast.engines.fetch.robots import RobotsDisallow
from holdfast.engines.site.color import to_hex
from holdfast.engines.site.inspector import SiteInspector
from tests.fakes.web import Names, Site, content, html, site

CSS = """
@import "extra.css";
@font-face { font-family: "Tide Sans"; src: url(tide.woff2); }
:root { --ink: #102030; --brand: hsl(210 100% 50%); --again: var(--ink); }
body { color: var(--again); background: #fff; font-family: "Tide Sans", system-ui; line-height: 1.6; font-size: 16px }
h1 { font-size: clamp(2rem, 5vw, 4rem); font-weight: 700 }
.card { background-color: var(--brand); border: 1px solid rgb(0 0 0 / 20%); display: grid; max-width: 72rem;
        &:hover { color: red } }
.sm\\:flex { display: flex }
.unused { color: #badbad; font-family: Nowhere }
a:hover { color: var(--missing, #00ff00) }
@media (min-width: 640px) { .card { display: flex } }
@media (width >= 1024px) { .card { color: transparent } }
@keyframes glow { from { color: #123456 } }
"""
PAGE = """
<header aria-label="Top"><nav><a href="/a">A</a><a href="/b">B</a></nav></header>
<main id="content"><h1>High tide</h1><section><h2>Today</h2>
<div class="card sm:flex">one</div><div class="card">two</div><div class="card" style="color: rebeccapurple">three</div>
</section></main><footer>imprint</footer>
"""
HEAD = """<title>Tides</title><meta name="description" content="All tides"><meta property="og:title" content="OG tides">
<meta name="viewport" content="width=device-width"><meta name="theme-color" content="#0af">
<link rel="stylesheet" href="/main.css"><link rel="stylesheet" href="/gone.css"><link rel="icon" href="/i.png">
<link rel="stylesheet" href="http://169.254.169.254/x.css"><link rel="stylesheet" media="print" href="/print.css">
<link rel="preconnect" href="https://fonts.googleapis.com/css2?family=Sea+Serif:wght@400">
<style>footer { color: #333 }</style>"""


@pytest.fixture
async def web() -> AsyncIterator[Site]:
    async with site() as found:
        found.pages["/"] = html(PAGE, head=HEAD)
        found.pages["/main.css"] = content(CSS.encode(), "text/css")
        found.pages["/extra.css"] = content(b"nav { background: oklch(0.7 0.1 200) }", "text/css")
        yield found


@pytest.fixture
async def inspector(web: Site) -> AsyncIterator[SiteInspector]:
    guard = Guard(
        allow_private=[f"site.test:{web.port}"], resolver=Names(site_test=["127.0.0.1"]), limits=FetchLimits(seconds=60)
    )
    reader = Reader(guard)
    made = SiteInspector(reader)
    yield made
    await made.aclose()
    await reader.aclose()


@pytest.mark.contract("XM-8")
async def test_a_page_is_told_by_its_colours_type_and_layout(web: Site, inspector: SiteInspector) -> None:
    report = await inspector.inspect(web.url("/"))
    swatches = {swatch.color: swatch for swatch in report.palette}
    assert swatches["#102030"].role == "text"
    assert swatches["#ffffff"].role == "background"
    assert swatches["#007fff"].role == "background"
    assert swatches["#000000"].role == "border"
    assert {"#663399", "#333333", "#ff0000", "#00ff00"} <= set(swatches)
    assert not {"#badbad", "#123456"} & set(swatches), "what styles no element is no colour of the page"
    assert sum(swatch.share for swatch in report.palette) == pytest.approx(100, abs=1)
    assert report.palette[0].color in ("#102030", "#ffffff")
    assert report.typography.families[0].family == '"Tide Sans", system-ui'
    assert report.typography.families[0].share == 100.0
    assert report.typography.web_fonts == ["Tide Sans", "Sea Serif"]
    assert report.typography.sizes == {"body": "16px", "h1": "clamp(2rem, 5vw, 4rem)"}
    assert (report.typography.weights, report.typography.line_height) == (["700"], "1.6")
    assert [region.region for region in report.layout.regions] == ["header", "nav", "main", "section", "footer"]
    assert (report.layout.regions[0].label, report.layout.regions[0].links) == ("Top", 2)
    assert [(heading.level, heading.text) for heading in report.layout.outline] == [(1, "High tide"), (2, "Today")]
    assert report.layout.techniques == {"flex": 4, "grid": 3}
    assert (report.layout.breakpoints, report.layout.max_widths) == (["640px", "1024px"], ["72rem"])
    assert report.layout.counts["a"] == 2
    assert (report.meta.title, report.meta.theme_color) == ("Tides", "#0af")
    assert report.meta.open_graph == {"title": "OG tides"}
    assert report.meta.icons == [web.url("/i.png")]


async def test_stylesheets_come_through_the_guard_and_their_imports_too(web: Site, inspector: SiteInspector) -> None:
    report = await inspector.inspect(web.url("/"))
    sheets = {sheet.url: sheet for sheet in report.stylesheets}
    assert sheets[web.url("/main.css")].bytes == len(CSS)
    assert "404" in sheets[web.url("/gone.css")].error
    assert "not on the public internet" in sheets["http://169.254.169.254/x.css"].error
    assert sheets[web.url("/extra.css")].error == ""
    assert web.url("/print.css") not in sheets
    assert "#40b1b7" in {swatch.color for swatch in report.palette}


async def test_a_page_without_css_and_a_hostile_one_are_bounded(web: Site, inspector: SiteInspector) -> None:
    web.pages["/plain"] = html("<p>hello")
    assert (await inspector.inspect(web.url("/plain"))).palette == []
    bomb = "".join(f"--v{number}: var(--v{number + 1}) var(--v{number + 1}) red;" for number in range(50))
    web.pages["/bomb"] = html("<p>x", head="<style>p{" + bomb + "color: var(--v0)} " + "{" * 500 + "</style>")
    assert [swatch.color for swatch in (await inspector.inspect(web.url("/bomb"))).palette] == ["#ff0000"]


async def test_what_may_not_be_read_is_not_inspected(web: Site, inspector: SiteInspector) -> None:
    web.pages["/data"] = content(b"{}", "application/json")
    web.pages["/robots.txt"] = content(b"User-agent: *\nDisallow: /closed", "text/plain")
    with pytest.raises(FetchFailed, match="only web pages"):
        await inspector.inspect(web.url("/data"))
    with pytest.raises(RobotsDisallow):
        await inspector.inspect(web.url("/closed"))
    with pytest.raises(Blocked):
        await inspector.inspect("http://192.168.0.1/")


@pytest.mark.parametrize(
    ("text", "color"),
    [
        ("#abc", "#aabbcc"),
        ("rgb(1, 2, 3)", "#010203"),
        ("hsl(120, 100%, 25%)", "#008000"),
        ("hwb(0 0% 0%)", "#ff0000"),
        ("oklch(0.628 0.2577 29.23)", "#ff0000"),
        ("oklab(1 0 0)", "#ffffff"),
        ("lab(100 0 0)", "#ffffff"),
        ("transparent", None),
        ("currentcolor", None),
        ("inherit", None),
    ],
)
def test_every_way_to_write_a_colour_becomes_hex(text: str, color: str | None) -> None:
    assert to_hex(tinycss2.parse_one_component_value(text)) == color
