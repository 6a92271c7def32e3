"""Markdown as pages show it: what is hostile is text, what is harmless is kept."""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.surfaces.dashboard.shell.markdown import rendered
from tests.support.attacks.markup import PAYLOADS
from tests.support.properties import examples

_LIVE = re.compile(
    r"<(?!/?(?:a|blockquote|br|code|del|em|h[1-6]|hr|li|ol|p|pre|s|strong|table|tbody|td|th|thead|tr|ul)\b)"
)
_HREF = re.compile(r'href="([^"]*)"')
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HANDLER = re.compile(r"<[^>]*\son\w+\s*=", re.IGNORECASE)


def _is_harmless(markup: str) -> bool:
    links = _HREF.findall(markup)
    # As browsers read an address: entities resolved, white space and control characters gone.
    schemes = [_SCHEME.match(re.sub(r"[\x00-\x20]", "", unescape(link))) for link in links]
    web = all(found is None or found[1].lower() in ("http", "https", "mailto") for found in schemes)
    return _LIVE.search(markup) is None and _HANDLER.search(markup) is None and web


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_payload_becomes_live(payload: str) -> None:
    for text in (
        payload,
        f"[{payload}]({payload})",
        f"`{payload}`",
        f"# {payload}",
        f"![{payload}]({payload} '{payload}')",
    ):
        assert _is_harmless(rendered(text)), rendered(text)


@examples(200)
@given(
    st.lists(
        st.sampled_from(
            ["<", ">", "a", "script", "[", "](", ")", "javascript:", "&#x", "`", "\n", " ", '"', "on=", "data:"]
        ),
        max_size=40,
    )
)
def test_no_mixture_becomes_live(pieces: list[str]) -> None:
    assert _is_harmless(rendered("".join(pieces)))


def test_what_is_harmless_is_kept() -> None:
    shown = rendered(
        "**Bold**, `code`, [a link](https://example.com/x) and\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n3. three\n"
    )
    for kept in (
        "<strong>Bold</strong>",
        "<code>code</code>",
        'href="https://example.com/x"',
        '<table tabindex="0">',
        "<td>1</td>",
        'start="3"',
    ):
        assert kept in shown
    assert "noopener" in shown


def test_images_are_not_loaded_from_elsewhere() -> None:
    assert "<img" not in rendered("![pixel](https://tracker.example/p.png)")
