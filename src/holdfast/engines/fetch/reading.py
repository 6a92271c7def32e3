"""Owns the jobs that run in the worker process: HTML to text and links, PDF to text, one robots.txt question."""

import re
from typing import Any
from urllib.parse import urljoin, urlsplit

import protego
import pypdfium2
from resiliparse.parse.encoding import detect_encoding
from resiliparse.parse.html import HTMLTree

from holdfast.engines.fetch.charset import decode, load_codecs
from holdfast.engines.fetch.dom import select
from holdfast.engines.fetch.job import UnreadableContent
from holdfast.engines.fetch.markdown import MAX_TEXT, collapse, to_markdown
from holdfast.engines.markup import bounded

_MAX_LINKS = 300
_MAX_PDF_PAGES = 300
_META_CHARSET = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]+)""", re.IGNORECASE)


def prepare() -> None:
    """Load everything that the jobs need while files can still be opened."""
    load_codecs()
    run("html", {"url": "http://sample.test/"}, [b"<html><title>x</title><p><a href=x>sample</a>"])
    run("robots", {"url": "http://sample.test/", "agent": "x"}, [b"User-agent: *\nDisallow: /*x$"])


def run(job: str, params: dict[str, Any], parts: list[bytes]) -> Any:
    """The worker's entry: one job by name."""
    if job == "html":
        return read_html(parts[0], params["url"], params.get("charset", ""))
    if job == "pdf":
        return read_pdf(parts[0])
    return protego.Protego.parse(decode(parts[0], "utf-8")).can_fetch(params["url"], params["agent"])


def parse_html(body: bytes, charset: str) -> Any:
    """The page's tree, decoded as the header or its own meta element says."""
    declared = _META_CHARSET.search(body[:2_048])
    named = charset or (declared.group(1).decode() if declared else "")
    return HTMLTree.parse(bounded(decode(body, named, guess=detect_encoding(body[:20_000]) or "cp1252")))


def read_html(body: bytes, url: str, charset: str) -> dict[str, Any]:
    """Title, description, Markdown and links of a page."""
    tree = parse_html(body, charset)
    if tree.body is None:
        return {"title": "", "description": "", "text": "", "links": []}
    return {
        "title": collapse(tree.title or "")[:300],
        "description": _meta(tree, "description")[:500],
        "text": _main_text(tree),
        "links": _links(tree, url),
    }


def _meta(tree: Any, name: str) -> str:
    found = tree.head.query_selector(f'meta[name="{name}"]') if tree.head is not None else None
    return collapse(found.getattr("content") or "") if found is not None else ""


def _main_text(tree: Any) -> str:
    whole = to_markdown(tree.body, limit=MAX_TEXT)
    main = tree.body.query_selector('main, [role="main"]')
    articles = select(tree.body, "article", 2)
    if main is None and len(articles) == 1:
        main = articles[0]
    if main is not None:
        text = to_markdown(main, limit=MAX_TEXT)
        if len(text) >= min(300, len(whole) // 3) and text:
            return text
    # A page that is nothing but navigation is still worth reading.
    return whole or to_markdown(tree.body, limit=MAX_TEXT, boilerplate=True)


def _links(tree: Any, url: str) -> list[dict[str, str]]:
    base_node = tree.head.query_selector("base[href]") if tree.head is not None else None
    base = urljoin(url, base_node.getattr("href")) if base_node is not None else url
    found: dict[str, str] = {}
    for node in select(tree.body, "a[href]", 5_000):
        try:
            target = urljoin(base, node.getattr("href").strip()).partition("#")[0]
            scheme = urlsplit(target).scheme
        except ValueError:
            continue
        if scheme in ("http", "https") and target != url.partition("#")[0] and len(target) <= 2_048:
            found[target] = found.get(target) or collapse(node.text)[:120]
        if len(found) >= _MAX_LINKS:
            break
    return [{"url": target, "text": text} for target, text in found.items()]


def read_pdf(body: bytes) -> dict[str, Any]:
    """Title and text of a PDF, page by page."""
    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError:
        raise UnreadableContent("the PDF is damaged or needs a password") from None
    pages: list[str] = []
    length = 0
    for index in range(min(len(document), _MAX_PDF_PAGES)):
        try:
            text = document[index].get_textpage().get_text_bounded()
        except pypdfium2.PdfiumError:
            continue
        pages.append(text.replace("\r\n", "\n").strip())
        length += len(text)
        if length > MAX_TEXT:
            break
    title = document.get_metadata_dict().get("Title", "")
    text = "\n\n".join(page for page in pages if page)[:MAX_TEXT]
    return {"title": collapse(title)[:300], "text": text, "pages": len(document)}
