"""Owns the jobs that run in the worker process: which stylesheets a page links, and the report on the page."""

from collections import Counter, defaultdict
from typing import Any, Literal
from urllib.parse import parse_qs, urljoin, urlsplit

from holdfast.engines.fetch.charset import decode, load_codecs
from holdfast.engines.fetch.dom import classes, select
from holdfast.engines.fetch.markdown import collapse, to_markdown
from holdfast.engines.fetch.reading import parse_html
from holdfast.engines.site.color import to_hex
from holdfast.engines.site.model import Heading, Layout, Meta, Region, SiteReport, Swatch, Typeface, Typography
from holdfast.engines.site.styles import Elements, Styles

Role = Literal["text", "background", "border", "icon", "other"]

_REGIONS = 'header, nav, main, article, section, aside, footer, form, [role="banner"], [role="main"], [role="search"]'
_COUNTED = ("a", "img", "video", "form", "button", "input", "table", "script", "svg", "iframe")
_SIZED = ("body", "p", "h1", "h2", "h3", "h4", "h5", "h6", "small", "code", "a", "button")
_MAX_ELEMENTS = 100_000


def prepare() -> None:
    """Load everything that the jobs need while files can still be opened."""
    load_codecs()
    sheet = b"p { color: var(--a, #123); font: 1em/2 x; max-width: 2em } @media (min-width: 1px) { p { color: red } }"
    run("report", {"url": "http://sample.test/"}, [b"<html><p class=x style='color:red'>sample", sheet])


def run(job: str, params: dict[str, Any], parts: list[bytes]) -> Any:
    """The worker's entry: one job by name."""
    tree = parse_html(parts[0], params.get("charset", ""))
    if job == "links":
        return _stylesheets(tree, params["url"])
    return _report(tree, params["url"], parts[1:]).model_dump()


def _report(tree: Any, url: str, sheets: list[bytes]) -> SiteReport:
    styles = Styles(_elements(tree))
    for node in select(tree.document, "style"):
        styles.add_sheet(node.text)
    for sheet in sheets:
        styles.add_sheet(decode(sheet))
    for node in select(tree.document, "[style]", 2_000):
        styles.add_inline(node.tag, node.getattr("style"))
    return SiteReport(
        url=url,
        meta=_meta(tree, url),
        palette=_palette(styles),
        typography=_typography(tree, styles),
        layout=_layout(tree, styles),
    )


def _stylesheets(tree: Any, url: str) -> list[str]:
    found = []
    for node in select(tree.document, "link[href]"):
        kinds = (node.getattr("rel") or "").lower().split()
        if "stylesheet" in kinds and "alternate" not in kinds and (node.getattr("media") or "all") != "print":
            found.append(urljoin(url, node.getattr("href").strip()))
    return list(dict.fromkeys(found))


def _elements(tree: Any) -> Elements:
    found = Elements()
    for node in select(tree.document, "*", _MAX_ELEMENTS):
        found.total += 1
        found.tags[node.tag] += 1
        found.classes.update(classes(node))
        if node.id:
            found.ids[node.id] += 1
    return found


def _role(name: str) -> Role:
    if name in ("color", "caret-color", "text-decoration-color", "text-decoration"):
        return "text"
    if name.startswith("background"):
        return "background"
    if name.startswith(("border", "outline", "column-rule")):
        return "border"
    return "icon" if name in ("fill", "stroke") else "other"


def _palette(styles: Styles) -> list[Swatch]:
    weights: Counter[str] = Counter()
    roles: defaultdict[str, Counter[Role]] = defaultdict(Counter)
    for declaration in styles.declarations:
        if declaration.name.startswith(("font", "animation", "transition", "grid", "content")):
            continue
        for token in styles.resolved(declaration):
            color = to_hex(token) if token.type in ("hash", "ident", "function") else None
            if color is not None:
                weights[color] += declaration.weight
                roles[color][_role(declaration.name)] += declaration.weight
    total = sum(weights.values()) or 1
    return [
        Swatch(color=color, share=round(100 * weight / total, 1), role=roles[color].most_common(1)[0][0])
        for color, weight in weights.most_common(16)
    ]


def _typography(tree: Any, styles: Styles) -> Typography:
    families: Counter[str] = Counter()
    weights: Counter[str] = Counter()
    sizes: dict[str, str] = {}
    line_height = ""
    for declaration in styles.declarations:
        text = styles.text(declaration) if declaration.name.startswith(("font", "line-height")) else ""
        if not text or text in ("inherit", "initial", "unset"):
            continue
        if declaration.name == "font-family":
            families[text] += declaration.weight
        elif declaration.name == "font-weight":
            weights[text] += declaration.weight
        elif declaration.name == "font-size" and declaration.subject in _SIZED:
            sizes.setdefault(declaration.subject, text)
        elif declaration.name == "line-height" and declaration.subject in ("body", "html", ":root"):
            line_height = line_height or text
    total = sum(families.values()) or 1
    return Typography(
        families=[
            Typeface(family=name, share=round(100 * count / total, 1)) for name, count in families.most_common(8)
        ],
        web_fonts=list(dict.fromkeys([*styles.fonts, *_hosted_fonts(tree)]))[:12],
        sizes={name: sizes[name] for name in _SIZED if name in sizes},
        weights=[name for name, _ in weights.most_common(8)],
        line_height=line_height,
    )


def _hosted_fonts(tree: Any) -> list[str]:
    found = []
    for node in select(tree.document, 'link[href*="fonts.googleapis.com"]'):
        for family in parse_qs(urlsplit(node.getattr("href")).query).get("family", []):
            found += [name.partition(":")[0] for name in family.split("|")]
    return found


def _layout(tree: Any, styles: Styles) -> Layout:
    techniques: Counter[str] = Counter()
    widths: Counter[str] = Counter()
    for declaration in styles.declarations:
        if declaration.name in ("display", "float", "position", "max-width"):
            text = styles.text(declaration)
            if declaration.name == "max-width" and text[:1].isdigit():
                widths[text] += declaration.weight
            elif text.removeprefix("inline-") in ("grid", "flex", "left", "right", "absolute", "fixed", "sticky"):
                name = "float" if declaration.name == "float" else text.removeprefix("inline-")
                techniques[name] += declaration.weight
    counts = {tag: styles.elements.tags[tag] for tag in _COUNTED if styles.elements.tags[tag]}
    return Layout(
        regions=_regions(tree),
        outline=[
            Heading(level=int(node.tag[1]), text=collapse(node.text)[:150])
            for node in select(tree.document, "h1, h2, h3, h4, h5, h6", 40)
        ],
        techniques=dict(techniques.most_common()),
        breakpoints=sorted((name for name, _ in styles.breakpoints.most_common(12)), key=_pixels),
        max_widths=[name for name, _ in widths.most_common(5)],
        counts=counts,
    )


def _pixels(text: str) -> float:
    number = float(text.rstrip("pxrem") or 0)
    return number if text.endswith("px") else number * 16


def _regions(tree: Any) -> list[Region]:
    found = []
    for node in select(tree.document, _REGIONS, 25):
        heading = node.query_selector("h1, h2, h3, h4")
        label = node.getattr("aria-label") or (collapse(heading.text) if heading is not None else "") or node.id or ""
        found.append(
            Region(
                region=node.getattr("role") or node.tag,
                label=label[:100],
                words=len(to_markdown(node, limit=50_000, boilerplate=True).split()),
                links=len(select(node, "a")),
            )
        )
    return found


def _meta(tree: Any, url: str) -> Meta:
    named: dict[str, str] = {}
    for node in select(tree.document, "meta[content]", 200):
        key = (node.getattr("name") or node.getattr("property") or "").lower()
        named.setdefault(key, collapse(node.getattr("content"))[:300])
    links: defaultdict[str, list[str]] = defaultdict(list)
    for node in select(tree.document, "link[rel][href]", 200):
        for kind in node.getattr("rel").lower().split():
            links[kind].append(urljoin(url, node.getattr("href").strip())[:500])
    root = tree.document.query_selector("html")
    return Meta(
        title=collapse(tree.title or "")[:300],
        description=named.get("description", ""),
        language=(root.getattr("lang") or "") if root is not None else "",
        viewport=named.get("viewport", ""),
        canonical=next(iter(links["canonical"]), ""),
        theme_color=named.get("theme-color", ""),
        generator=named.get("generator", ""),
        icons=list(dict.fromkeys([*links["icon"], *links["apple-touch-icon"]]))[:4],
        open_graph={key[3:]: value for key, value in named.items() if key.startswith("og:")},
        twitter={key[8:]: value for key, value in named.items() if key.startswith("twitter:")},
    )
