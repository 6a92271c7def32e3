"""Owns what research leaves beside its report: tables, matrices, lists of findings."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.engines.llm.citations import ReadSource
from holdfast.engines.llm.cited.markdown import cited_in, inert
from holdfast.engines.llm.research.planning import Plan

MOST_TABLES = 6
MOST_POINTS = 4
_LONGEST_POINT = 400
_MOST_QUOTED = 3
_MARKS = frozenset(
    {"yes", "no", "partial", "partly", "x", "✓", "✔", "✗", "✘", "✅", "❌", "-", "–", "—", "n/a", "?", ""}
)
_SEPARATOR = re.compile(r"^\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*$")
_POINT = re.compile(r"^\s*(?:\d{1,2}[.)]|[-*•])\s+(.+)$", re.M)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class Structured:
    """Something that stands on its own."""

    kind: Literal["table", "matrix", "findings"]
    title: str
    content: str
    count: int


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What came of a sub-task."""

    answer: str
    sources: tuple[int, ...]
    stated: str = ""
    """What of the answer the sources support, with their numbers; only this is kept beside the report."""


def tables(answer: str, title: str, sources: Mapping[int, ReadSource]) -> list[Structured]:
    """The tables of an answer, as far as its sources support it; a matrix is one whose cells mostly say yes or no."""
    found = []
    lines = answer.splitlines()
    number = 1
    while number < len(lines):
        if not (_SEPARATOR.match(lines[number]) and "|" in lines[number - 1] and "|" in lines[number]):
            number += 1
            continue
        begin, end = number - 1, number + 1
        while end < len(lines) and "|" in lines[end]:
            end += 1
        if end > number + 1:
            named = _heading(lines[:begin]) or title
            rows = [_cells(line) for line in lines[number + 1 : end]]
            table = "\n".join(line.strip() for line in lines[begin:end])
            content = _with_sources(f"# {named}\n\n{table}", sources)
            found.append(Structured("matrix" if _is_matrix(rows) else "table", named, content, len(rows)))
        number = end + 1
    return found[:MOST_TABLES]


def findings(plan: Plan, results: Sequence[TaskResult], sources: Mapping[int, ReadSource]) -> Structured | None:
    """The main points of every sub-task, as far as its sources support them."""
    parts, count = [f"# Findings: {plan.title}"], 0
    for task, result in zip(plan.subtasks, results, strict=True):
        points = list(_points(result.stated))[:MOST_POINTS]
        if points:
            parts.append(f"## {task.query}\n\n" + "\n".join(f"- {point}" for point in points))
            count += len(points)
    content = _with_sources("\n\n".join(parts), sources)
    return Structured("findings", f"Findings: {plan.title}", content, count) if count else None


def listed_sources(cited: Sequence[int], sources: Mapping[int, ReadSource], quoted: Mapping[int, Sequence[str]]) -> str:
    """What the numbers of a report mean, with the words that were found there."""
    lines = []
    for number in cited:
        source = sources[number]
        name = source.title or source.address
        shown = f"{name} – {source.address}" if source.address and source.address != name else name
        words = "".join(f"\n  > {inert(quote)}" for quote in quoted.get(number, ())[:_MOST_QUOTED])
        lines.append(f"- [{number}] {inert(shown)}{words}")
    return "## Sources\n\n" + "\n".join(lines) if lines else ""


def _with_sources(content: str, sources: Mapping[int, ReadSource]) -> str:
    cited = [number for number in cited_in(content) if number in sources]
    return f"{content}\n\n{listed_sources(cited, sources, {})}\n"


def _points(answer: str) -> Iterator[str]:
    text = "\n".join(line for line in answer.splitlines() if "|" not in line and not line.lstrip().startswith("#"))
    bullets = _POINT.findall(text)
    for point in bullets or _SENTENCE.split(" ".join(text.split())):
        tidy = " ".join(point.split())
        if len(tidy) > 3:
            yield tidy if len(tidy) <= _LONGEST_POINT else f"{tidy[:_LONGEST_POINT].rstrip()}…"


def _heading(lines: Sequence[str]) -> str:
    for line in reversed(lines):
        if line.strip():
            found = re.fullmatch(r"\s*(?:#{1,6}\s+(.+?)|\*\*(.+?)\*\*:?)\s*#*\s*", line)
            return (found[1] or found[2])[:100] if found else ""
    return ""


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _is_matrix(rows: Sequence[Sequence[str]]) -> bool:
    cells = [cell.lower() for row in rows for cell in row[1:]]
    return bool(cells) and sum(cell in _MARKS for cell in cells) * 2 > len(cells)
