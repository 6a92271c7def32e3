"""Owns reading HTML: what a person would see, as Markdown."""

import html
import re

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLTree

from holdfast.engines.extract.text import clean
from holdfast.engines.markup import pieces

_TAG = re.compile(r"<(/?)([a-z][a-z0-9]*)[^<>]*>")
_BLOCKS = {"p", "ul", "ol", "pre", "br", "div", "table", "tr", "blockquote"}


def html_to_markdown(markup: str) -> tuple[str, str]:
    """(title, Markdown) of a page; scripts, styles and hidden elements are left out."""
    title = ""
    texts: list[str] = []
    for piece in pieces(markup):
        tree = HTMLTree.parse(piece)
        title = title or " ".join((tree.title or "").split())
        for cell in tree.document.query_selector_all("td, th"):
            # Neighbouring cells would run into one word.
            cell.append_child(tree.create_text_node(" | "))
        reduced = extract_plain_text(tree, preserve_formatting="minimal_html", links=False, alt_texts=True)
        texts.append(clean(_markdown(reduced)))
    return clean(title), "\n\n".join(text for text in texts if text)


def _markdown(reduced: str) -> str:
    parts: list[str] = []
    at = 0
    for tag in _TAG.finditer(reduced):
        parts.append(html.unescape(reduced[at : tag.start()]))
        parts.append(_mark(closing=bool(tag[1]), name=tag[2]))
        at = tag.end()
    parts.append(html.unescape(reduced[at:]))
    return re.sub(r"\n{3,}", "\n\n", "".join(parts))


def _mark(*, closing: bool, name: str) -> str:
    if len(name) == 2 and name[0] == "h" and name[1] in "123456":
        return "\n\n" if closing else f"\n\n{'#' * int(name[1])} "
    if name == "li":
        return "" if closing else "\n- "
    if name == "br":
        return "\n"
    return "\n\n" if name in _BLOCKS else ""
