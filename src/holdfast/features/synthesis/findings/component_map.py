"""Owns the component map: sizes, main definitions, imports among components, and what changes together."""

import re
from collections import defaultdict

from holdfast.core.text.counting import many
from holdfast.features.repositories.model import FoundSymbol
from holdfast.features.synthesis.findings.architecture import purpose
from holdfast.features.synthesis.findings.page import DerivedPage
from holdfast.features.synthesis.model import FindingDraft, in_file
from holdfast.features.synthesis.sources.components import ROOT, Component
from holdfast.features.synthesis.sources.facts import Facts

_SHOWN = 20
_SYMBOLS = 5
_LEAST_TOGETHER = 3
_COUPLED = 0.3
_VALUES = ("variable", "constant", "value", "field", "property", "import")
_NAMES = ("class", "interface", "struct", "trait", "enum", "type")


def component_map(facts: Facts) -> FindingDraft | None:
    """The page; None where there are no two components."""
    shown = facts.components.all[:_SHOWN]
    if len(shown) < 2:
        return None
    page = DerivedPage(facts.repository, "components")
    _graph(page, facts, shown)
    symbols = _main_symbols(facts)
    page.head("Components")
    for component in shown:
        _describe(page, facts, component, symbols[component.path])
    _imports(page, facts, shown)
    _together(page, facts, shown)
    return page.draft()


def _graph(page: DerivedPage, facts: Facts, shown: list[Component]) -> None:
    names = {component.path: f"c{number}" for number, component in enumerate(shown)}
    lines = ["graph LR"]
    lines += [f'  {names[each.path]}["{_label(each.path)}"]' for each in shown]
    arrows = sorted(facts.dependencies.between.items(), key=lambda arrow: (-arrow[1], arrow[0]))
    lines += [
        f"  {names[start]} -->|{count}| {names[end]}"
        for (start, end), count in arrows[:40]
        if start in names and end in names
    ]
    page.block("mermaid", lines)


def _label(path: str) -> str:
    return re.sub(r'["\[\]{}<>|]', "", "top level" if path == ROOT else path)


def _describe(page: DerivedPage, facts: Facts, component: Component, symbols: list[FoundSymbol]) -> None:
    path = component.path
    said, cited = purpose(facts, "" if path == ROOT else path) if path != ROOT else ("files at the top level", [])
    languages = f", {', '.join(component.languages)}" if component.languages else ""
    text = f"**{_label(path)}** ({many(component.files, 'file')}, {many(component.lines, 'line')}{languages})"
    text += f": {said.rstrip('.')}." if said else ""
    main = [f"`{symbol.name}`" for symbol in symbols]
    if main:
        text += f" Main definitions: {', '.join(main)}."
        cited += [(in_file(each.path, each.start_line, each.end_line), each.name) for each in symbols]
    page.point(text, *cited)


def _main_symbols(facts: Facts) -> dict[str, list[FoundSymbol]]:
    """Of each component the largest definitions, types before functions."""
    found: dict[str, list[FoundSymbol]] = defaultdict(list)
    for symbol in facts.symbols:
        home = facts.components.of(symbol.path)
        if home is not None and symbol.kind not in _VALUES and not symbol.name.startswith("_"):
            found[home].append(symbol)
    for home, symbols in found.items():
        symbols.sort(key=lambda each: (each.kind not in _NAMES, each.start_line - each.end_line, each.path))
        found[home] = symbols[:_SYMBOLS]
    return found


def _imports(page: DerivedPage, facts: Facts, shown: list[Component]) -> None:
    known = {component.path for component in shown}
    arrows = sorted(facts.dependencies.between.items(), key=lambda arrow: (-arrow[1], arrow[0]))
    arrows = [arrow for arrow in arrows if set(arrow[0]) <= known]
    if not arrows:
        return
    page.head("What imports what")
    for (start, end), count in arrows[:30]:
        example = facts.dependencies.examples[start, end]
        noun = "file" if count == 1 else "files"
        page.point(f"`{_label(start)}` → `{_label(end)}` in {count} {noun}", (in_file(example), f"{start} {end}"))


def _together(page: DerivedPage, facts: Facts, shown: list[Component]) -> None:
    """Components that change in the same commits more often than chance would have it."""
    known = {component.path for component in shown}
    found = []
    for (one, other), count in facts.history.together.items():
        fewest = min(facts.history.touched[one], facts.history.touched[other])
        if count >= _LEAST_TOGETHER and {one, other} <= known and count / max(fewest, 1) >= _COUPLED:
            found.append((count / fewest, count, one, other))
    if not found:
        return
    page.head("What changes together")
    for share, count, one, other in sorted(found, reverse=True)[:15]:
        page.point(
            f"`{_label(one)}` and `{_label(other)}`: {many(count, 'commit')}, "
            f"{100 * share:.0f} % of the less changed one's"
        )
