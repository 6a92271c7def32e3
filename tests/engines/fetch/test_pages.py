"""Reading pages: text by kind, robots.txt, hostile documents, and the four ways of fetching with their budgets."""

import io
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from reportlab.pdfgen import canvas

from holdfast.core.errors import Invalid, RateLimited
from holdfast.engines.fetch.network.connect import Blocked
from holdfast.engines.fetch.network.guard import FetchFailed, FetchLimits, Guard
from holdfast.engines.fetch.pages import CHARACTERS, Fetcher
from holdfast.engines.fetch.reader import JOBS, Reader
from holdfast.engines.fetch.robots import RobotsDisallow
from holdfast.engines.fetch.workers import ContentUnreadable, Workers
from tests.fakes.web import Content, Names, Site, content, html, redirect, site

LONG = "A sentence about tides. " * 3_000


@pytest.fixture
async def web() -> AsyncIterator[Site]:
    async with site() as found:
        yield found


@pytest.fixture
async def reader(web: Site) -> AsyncIterator[Reader]:
    allowed = [f"site.test:{web.port}", f"www.site.test:{web.port}", f"other.test:{web.port}"]
    resolver = Names(site_test=["127.0.0.1"], www_site_test=["127.0.0.1"], other_test=["127.0.0.1"])
    guard = Guard(allow_private=allowed, resolver=resolver, limits=FetchLimits(seconds=60))
    made = Reader(guard)
    yield made
    await made.aclose()
    await guard.aclose()


@pytest.fixture
def fetcher(reader: Reader) -> Fetcher:
    # The product gives up after 14 seconds; a busy test machine gets more.
    return Fetcher(reader, seconds=90)


def pdf(*pages: str, title: str = "") -> bytes:
    made = io.BytesIO()
    sheet = canvas.Canvas(made)
    sheet.setTitle(title)
    for page in pages:
        sheet.drawString(72, 720, page)
        sheet.showPage()
    sheet.save()
    return made.getvalue()


async def test_a_web_page_becomes_markdown_with_title_and_links(web: Site, reader: Reader) -> None:
    web.pages["/guide"] = html(
        """<nav><a href="/home">Home</a></nav><main><h1>The <em>guide</em></h1><p>Read
        it &amp; weep.<br>Twice.</p><ul><li>one<ul><li>inner</li></ul></li><li><p>two</p></li></ul>
        <ol><li>first</li></ol><blockquote><p>so it goes</p></blockquote>
        <pre><code>if a &lt; b:\n    pass</code></pre><p>Use <code>x &gt; y</code>.</p>
        <table><tr><th>name</th><th>share</th></tr><tr><td>a|b</td><td>7</td></tr></table>
        <p hidden>secret</p><script>alert(1)</script><a href="sub/page#part">Next page</a></main>
        <footer>imprint <a href="https://elsewhere.example/">out</a></footer>""",
        head='<title> A   guide </title><meta name="description" content="All of it">',
    )
    page = await reader.read(web.url("/guide"))
    assert (page.title, page.description, page.kind) == ("A guide", "All of it", "html")
    assert page.text == (
        "# The guide\n\nRead it & weep.\nTwice.\n\n- one\n  - inner\n- two\n1. first\n\n> so it goes\n\n"
        "```\nif a < b:\n    pass\n```\n\nUse `x > y`.\n\n"
        "| name | share |\n| --- | --- |\n| a\\|b | 7 |\n\nNext page"
    )
    assert [(link.url, link.text) for link in page.links] == [
        (web.url("/home"), "Home"),
        (web.url("/sub/page"), "Next page"),
        ("https://elsewhere.example/", "out"),
    ]


async def test_a_pdf_is_read_page_by_page(web: Site, reader: Reader) -> None:
    web.pages["/paper"] = content(pdf("Tides rise", "Tides fall", title="On tides"), "application/octet-stream")
    page = await reader.read(web.url("/paper"))
    assert (page.kind, page.title, page.text) == ("pdf", "On tides", "Tides rise\n\nTides fall")


async def test_a_damaged_pdf_is_unreadable_and_the_next_one_is_not(web: Site, reader: Reader) -> None:
    web.pages["/bad"] = content(b"%PDF-1.7 nothing follows", "application/pdf")
    web.pages["/good"] = content(pdf("fine"), "application/pdf")
    with pytest.raises(ContentUnreadable, match="damaged"):
        await reader.read(web.url("/bad"))
    assert (await reader.read(web.url("/good"))).text == "fine"


async def test_text_is_decoded_by_what_it_says_it_is(web: Site, reader: Reader) -> None:
    cases = [
        ('{"a": "ü"}'.encode(), "application/json", '{"a": "ü"}'),
        ("grün".encode("latin-1"), "text/plain; charset=ISO-8859-1", "grün"),
        ("grün".encode("cp1252"), "text/plain", "grün"),
        ("grün".encode("utf-16"), "text/plain", "grün"),
        ("日本".encode("shift_jis"), "text/plain; charset=Shift_JIS", "日本"),
        ("grün".encode(), "text/plain; charset=punycode", "grün"),
        ("日本".encode("euc-jp"), 'text/html; charset="euc-jp"', "日本"),
        (b'<meta charset="windows-1251"><p>' + "привет".encode("cp1251"), "text/html", "привет"),
    ]
    for number, (body, content_type, text) in enumerate(cases):
        web.pages[f"/{number}"] = Content(body, {"Content-Type": content_type})
        assert (await reader.read(web.url(f"/{number}"))).text == text


async def test_pictures_errors_and_refusals_are_told_in_words(web: Site, reader: Reader) -> None:
    web.pages["/picture"] = content(b"\x89PNG\0\0", "image/png")
    web.pages["/busy"] = Content(b"", {"Retry-After": "12"}, 429)
    with pytest.raises(FetchFailed, match="image/png"):
        await reader.read(web.url("/picture"))
    with pytest.raises(FetchFailed, match="answered 404"):
        await reader.read(web.url("/absent"))
    with pytest.raises(RateLimited, match="wait 12 seconds"):
        await reader.read(web.url("/busy"))


async def test_a_page_is_fetched_once_in_five_minutes(web: Site, reader: Reader) -> None:
    web.pages["/a"] = html("<p>hello</p>")
    first = await reader.read(web.url("/a"))
    assert await reader.read(web.url("/a") + "#part") is first
    assert web.asked.count("/a") == 1


@pytest.mark.contract("XM-8")
async def test_robots_txt_is_honoured_on_every_hop_and_asked_for_once(web: Site, reader: Reader) -> None:
    rules = (
        b"User-agent: *\nDisallow: /private/*.html$\n\nUser-agent: Holdfast\nDisallow: /private/\nAllow: /private/open"
    )
    web.pages["/robots.txt"] = content(rules, "text/plain")
    web.pages["/private/a"] = html("no")
    web.pages["/private/open"] = html("<p>yes</p>")
    web.pages["/hop"] = redirect("/private/a")
    for path in ("/private/a", "/hop"):
        with pytest.raises(RobotsDisallow):
            await reader.read(web.url(path))
    assert (await reader.read(web.url("/private/open"))).text == "yes"
    assert "/private/a" not in web.asked
    assert web.asked.count("/robots.txt") == 1


async def test_a_site_whose_robots_txt_is_broken_is_left_alone(web: Site, reader: Reader) -> None:
    web.pages["/robots.txt"] = Content(b"", {}, 503)
    web.pages["/a"] = html("hello")
    with pytest.raises(RobotsDisallow, match="could not be had"):
        await reader.read(web.url("/a"))


@pytest.mark.slow
async def test_a_page_nested_without_end_is_read_like_any_other() -> None:
    workers = Workers(JOBS, size=1)
    for tag in (b"<div>", b"<ul><li>", b"<b><p>", b"<table><tr><td>", b"<svg><g>"):
        page = b"<title>Deep</title>" + tag * 200_000 + b"treasure"
        answer = await workers.run("html", {"url": "http://a.test/"}, [page], seconds=60)
        assert answer["title"] == "Deep"
        assert "treasure" in answer["text"] or tag == b"<svg><g>"
    await workers.aclose()


async def test_a_page_that_takes_too_long_is_given_up_and_its_reader_replaced() -> None:
    workers = Workers(JOBS, size=1)
    await workers.run("html", {"url": "http://a.test/"}, [b"<p>warm"], seconds=60)
    with pytest.raises(ContentUnreadable, match="longer than"):
        await workers.run("html", {"url": "http://a.test/"}, [b"<b>x</b>" * 200_000], seconds=0.01)
    answer = await workers.run("html", {"url": "http://a.test/"}, [b"<p>well"], seconds=60)
    assert answer["text"] == "well"
    await workers.aclose()


async def test_a_reader_that_died_while_it_waited_is_replaced_without_a_word() -> None:
    workers = Workers(JOBS, size=1)
    await workers.run("html", {"url": "http://a.test/"}, [b"<p>one"], seconds=60)
    process, _ = workers._idle[0]
    process.kill()
    answer = await workers.run("html", {"url": "http://a.test/"}, [b"<p>two"], seconds=60)
    assert answer["text"] == "two"
    await workers.aclose()


def test_a_reader_process_can_open_nothing_and_take_little_memory() -> None:
    attempt = """
import socket
from holdfast.engines.fetch import reading, worker
reading.prepare()
worker._confine(400_000_000)
for deed in (lambda: open("/etc/passwd"), socket.socket, lambda: bytearray(500_000_000)):
    try:
        deed()
    except (OSError, MemoryError) as error:
        print(type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-I", "-c", attempt], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["OSError", "OSError", "MemoryError"]


async def test_deep_but_finite_nesting_is_read(web: Site, reader: Reader) -> None:
    web.pages["/deep"] = html("<div>" * 2_000 + "bottom")
    assert "bottom" in (await reader.read(web.url("/deep"))).text


@pytest.mark.contract("XS-T2")
async def test_a_single_page_may_use_the_whole_budget_and_its_failure_is_raised(web: Site, fetcher: Fetcher) -> None:
    web.pages["/long"] = html(f"<p>{LONG}</p>")
    result = await fetcher.fetch([web.url("/long")])
    assert result.total_pages == 1
    assert CHARACTERS - 1 <= len(result.pages[0].content) <= CHARACTERS
    assert result.pages[0].truncated
    with pytest.raises(FetchFailed):
        await fetcher.fetch([web.url("/absent")])
    with pytest.raises(Blocked):
        await fetcher.fetch(["http://10.0.0.1/"])


@pytest.mark.contract("XS-T2")
async def test_several_pages_share_the_budget_equally_and_fail_one_by_one(web: Site, fetcher: Fetcher) -> None:
    for number in range(3):
        web.pages[f"/{number}"] = html(f"<p>{LONG}</p>")
    urls = [web.url(f"/{number}") for number in range(3)]
    result = await fetcher.fetch([*urls, urls[0] + "#again", web.url("/absent"), "http://[::1]/"])
    assert [page.url for page in result.pages] == [*urls, web.url("/absent"), "http://[::1]/"]
    assert [page.error for page in result.pages] == [False, False, False, True, True]
    assert all(CHARACTERS // 3 - 1 <= len(page.content) <= CHARACTERS // 3 for page in result.pages[:3])
    assert "404" in result.pages[3].content
    assert "not on the public internet" in result.pages[4].content
    assert result.pages[0].discovered_links is None


@pytest.mark.contract("XS-T2")
async def test_discovery_lists_links_and_follows_three_on_the_same_site(web: Site, fetcher: Fetcher) -> None:
    links = "".join(f'<a href="/p{number}">p{number}</a>' for number in range(6))
    away = f'<a href="{web.url("/x", host="other.test")}">away</a><a href="/picture.png">picture</a>'
    web.pages["/"] = html(f"<main><p>{LONG}</p>{away}{links}</main>")
    for number in range(6):
        web.pages[f"/p{number}"] = html(f"<p>page {number} {LONG}</p>")
    listed = await fetcher.fetch([web.url("/")], discover_links=True)
    assert listed.discover_links_enabled
    assert listed.total_pages == 1
    found = [link.url for link in listed.pages[0].discovered_links or ()]
    assert found[-1] == web.url("/x", host="other.test")
    assert len(found) == 8
    followed = await fetcher.fetch([web.url("/")], discover_links=True, max_follow=3)
    assert [page.url for page in followed.pages] == [web.url(path) for path in ("/", "/p0", "/p1", "/p2")]
    assert [page.followed_from_discovery for page in followed.pages] == [False, True, True, True]
    assert sum(len(page.content) for page in followed.pages) <= CHARACTERS
    assert "/x" not in web.asked


@pytest.mark.contract("XS-T2")
async def test_at_most_eight_pages_are_fetched(web: Site, fetcher: Fetcher) -> None:
    for number in range(5):
        inner = "".join(f'<a href="/{number}/{link}">x</a>' for link in range(4))
        web.pages[f"/{number}"] = html(f"<p>page</p>{inner}")
        for link in range(4):
            web.pages[f"/{number}/{link}"] = html("<p>inner</p>")
    urls = [web.url(f"/{number}") for number in range(5)]
    result = await fetcher.fetch(urls, discover_links=True, max_follow=3)
    assert result.total_pages == 8
    assert [page.url for page in result.pages[5:]] == [web.url(f"/{number}/0") for number in range(3)]
    with pytest.raises(Invalid, match="URLs to fetch"):
        await fetcher.fetch([*urls, web.url("/6")])
    with pytest.raises(Invalid, match="follow"):
        await fetcher.fetch(urls, discover_links=True, max_follow=4)
