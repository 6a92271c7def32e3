"""Owns the proof that anybody's HTML is made cheap to parse, and that a real page stays what it is."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from resiliparse.parse.html import HTMLTree

from holdfast.engines import markup
from holdfast.engines.extract.html import html_to_markdown
from tests.support.properties import examples

_NAMES = (
    *("a", "b", "i", "p", "div", "span", "ul", "ol", "li", "dl", "dt", "dd", "table", "tbody", "tr", "td", "th"),
    *("caption", "colgroup", "col", "select", "option", "optgroup", "button", "form", "svg", "math", "g", "mi"),
    *("foreignObject", "desc", "annotation-xml", "template", "object", "marquee", "h1", "h2", "pre", "script"),
    *("style", "title", "textarea", "xmp", "noscript", "iframe", "html", "head", "body", "frameset", "br", "hr"),
    *("img", "input", "nobr", "font", "ruby", "rt", "x-own"),
)
_tag = st.builds(
    lambda name, form: form.format(name),
    st.sampled_from(_NAMES),
    st.sampled_from(["<{}>", "<{}>", "<{}>", "</{}>", "<{} a=1>", "<{} a='>'>", "<{}/>", '<{} b=">', "<{}"]),
)
_other = st.sampled_from(
    ["word ", "<!--", "-->", "<!-->", "<![CDATA[", "]]>", "<?x", ">", "<", "&lt;", "\n", "<!doctype html>"]
)
_soup = st.lists(st.tuples(_tag | _other, st.integers(1, 60)), max_size=40).map(
    lambda parts: "".join(part * times for part, times in parts)
)


def depth(node: Any) -> int:
    """How deep a tree is, without recursion."""
    deepest, level = 0, 0
    while node is not None:
        deepest = max(deepest, level)
        if node.first_child is not None:
            node, level = node.first_child, level + 1
            continue
        while node is not None and node.next is None:
            node, level = node.parent, level - 1
        node = node.next if node is not None else None
    return deepest


@given(page=_soup)
@example(page="<svg><p>" + "<div/>" * 400)
@example(page="<div><table></div></table>" * 300)
@example(page="<svg><g><![CDATA[></g>]]>" * 300)
@example(page="<div><!--></div>-->" * 300)
@example(page="<svg>" + "<input>" * 400)
@example(page="<table>" + "<b>x<p>" * 300)
@example(page="".join(f"<font x={n}>" for n in range(300)) + "<p>" * 300)
@examples(400)
def test_no_page_nests_deeper_than_it_may_or_grows(page: str) -> None:
    written = markup.bounded(page)
    tree = HTMLTree.parse(written)
    # The parser adds html, body, and the parts that a table must have; the text is a level too.
    assert depth(tree.document) <= 2 * markup.MAX_DEPTH
    assert len(tree.document.query_selector_all("*")) <= 4 * page.count("<") + 10
    assert len(written) <= 12 * len(page) + 1_000


@given(
    words=st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta"]), min_size=1, max_size=60),
    tag=st.sampled_from(["div", "b", "ul", "p", "table", "td", "a", "blockquote", "h2", "font", "section", "x-own"]),
    closed=st.booleans(),
    times=st.integers(1, 300),
)
@examples(150)
def test_no_word_is_lost_and_no_two_run_into_one(words: list[str], tag: str, closed: bool, times: int) -> None:
    end = f"</{tag}>" if closed else ""
    page = "".join(f"<{tag}>" * times + f" {word} " + end * times for word in words)
    _, text = html_to_markdown(page)
    assert text.replace("|", " ").replace("#", " ").replace("-", " ").split() == words


_blocks = st.recursive(
    st.sampled_from(["<p>one <b>two</b> three</p>", "<h2>head</h2>", "<pre>a\n b</pre>", "<p>x<br>y &amp; z</p>"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map(lambda parts: f"<div class=c>{''.join(parts)}</div>"),
        st.lists(inner, min_size=1, max_size=4).map(
            lambda parts: "<ul>" + "".join(f"<li>{part}</li>" for part in parts) + "</ul>"
        ),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda parts: "<table><tr>" + "".join(f"<td>{part}</td>" for part in parts) + "</tr></table>"
        ),
        inner.map(lambda part: f"<section hidden>{part}</section>{part}"),
        inner.map(lambda part: f"<blockquote>{part}</blockquote>"),
    ),
    max_leaves=25,
)


@given(body=_blocks)
@examples(150)
def test_a_well_formed_page_reads_as_before(body: str) -> None:
    page = (
        f"<!DOCTYPE html><html lang=en><head><title>T</title><style>p > b {{}}</style></head><body>{body}</body></html>"
    )
    direct = HTMLTree.parse(page)
    ours = HTMLTree.parse(markup.bounded(page))
    assert "".join(ours.body.html.split()) == "".join(direct.body.html.split())


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<p>one<p>two <b>bold<p>three", "one\n\ntwo bold\n\nthree"),
        ("<ul><li>a<li>b<ul><li>c</ul><li>d</ul>", "- a\n- b\n- c\n- d"),
        ("<table><tr><td>a<td>b<tr><td>c<td>d</table>", "a | b |\nc | d |"),
        ("<table><tr><td>a</div><td>b</table>after", "a | b |\nafter"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("<p title='a>b'>shown</p>", "shown"),
        ("<script>if (a < b) { '</p>' }</script>shown<!-- <p>not</p> -->", "shown"),
        ("<xmp><b>as it is</b></xmp>", "<b>as it is</b>"),
        ("<svg><title/><style/></svg>after", "after"),
        ("<textarea><b>x</textarea>after", "after"),
        ("<p>unclosed <a href='x", "unclosed"),
    ],
)  # fmt: skip
def test_what_people_write_by_hand_is_understood(page: str, text: str) -> None:
    found = [line.strip() for line in html_to_markdown(page)[1].splitlines() if line.strip()]
    assert found == [line.strip() for line in text.splitlines() if line.strip()]


def test_a_long_page_is_read_in_pieces_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    page = "<title>Long</title><div>" + "".join(f"<h2>Part {n}</h2><p>word{n} <b>and</b> more</p>" for n in range(50))
    whole = html_to_markdown(page)
    monkeypatch.setattr(markup, "PIECE_TAGS", 20)
    assert len(list(markup.pieces(page))) > 5
    title, text = html_to_markdown(page)
    assert (title, [line for line in text.splitlines() if line]) == (
        whole[0],
        [line for line in whole[1].splitlines() if line],
    )
