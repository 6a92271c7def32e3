"""Owns Markdown as pages show it: one renderer for everything; no markup of its authors survives."""

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

_TAGS = {
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s",
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_ATTRIBUTES = {"a": {"href", "title"}, "code": {"class"}, "ol": {"start"}}
_SCHEMES = {"http", "https", "mailto"}
_MARKDOWN = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable(["table", "strikethrough"])
MAX_CHARACTERS = 400_000


def rendered(text: str) -> Markup:
    """Safe markup: HTML is shown as text, links lead only to the web or to a letter, images are left out."""
    made = _MARKDOWN.render(text[:MAX_CHARACTERS])
    clean = nh3.clean(
        made, tags=_TAGS, attributes=_ATTRIBUTES, url_schemes=_SCHEMES, link_rel="noopener noreferrer nofollow"
    )
    # What is wider than the page is scrolled by keyboard, too.
    for wide in ("pre", "table"):
        clean = clean.replace(f"<{wide}>", f'<{wide} tabindex="0">')
    return Markup(clean)  # noqa: S704 – cleaned, and no words of anybody's in what was added
