"""Owns what research leaves beside its report: tables, matrices, lists of findings; and the report without a model."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from holdfast.engines.llm.citations import ReadSource
from holdfast.engines.llm.extractive.embedded import HINT
from holdfast.engines.llm.extractive.extracts import QuotedPassage, opening, quotes
from holdfast.engines.llm.research.planning import Plan

MOST_TABLES = 6
MOST_POINTS = 4
_LONGEST_POINT = 400
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


def tables(answer: str, title: str) -> list[Structured]:
    """The tables of an answer; a matrix is one whose cells mostly say yes or no."""
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
            content = f"# {named}\n\n" + "\n".join(line.strip() for line in lines[begin:end]) + "\n"
            found.append(Structured("matrix" if _is_matrix(rows) else "table", named, content, len(rows)))
        number = end + 1
    return found[:MOST_TABLES]


def findings(plan: Plan, results: Sequence[TaskResult]) -> Structured | None:
    """The main points of every sub-task."""
    parts, count = [f"# Findings: {plan.title}"], 0
    for task, result in zip(plan.subtasks, results, strict=True):
        points = list(_points(result.answer))[:MOST_POINTS]
        if points:
            parts.append(f"## {task.query}\n\n" + "\n".join(f"- {point}" for point in points))
            count += len(points)
    return Structured("findings", f"Findings: {plan.title}", "\n\n".join(parts) + "\n", count) if count else None


def quoted_report(plan: Plan, results: Sequence[TaskResult], sources: Mapping[int, ReadSource]) -> str:
    """A report of quotations alone, for a server without a model or a model without words."""
    parts = [f"# {plan.title}"]
    said = set[str]()
    for task, result in zip(plan.subtasks, results, strict=True):
        read = [sources[number] for number in result.sources if number in sources]
        found = [QuotedPassage(str(source.number), source.text, str(source.number)) for source in read]
        chosen = [quote for quote in quotes(task.query, found) or opening(found) if quote.text not in said]
        said.update(quote.text for quote in chosen)
        lines = [f'- {_unmarked(quote.text)} [{quote.passage.source} "{quote.text}"]' for quote in chosen]
        parts.append(f"## {task.query}\n\n" + ("\n".join(lines) or _rest(result, bool(read))))
    return "\n\n".join(parts)


def without_hint(answer: str) -> str:
    """An answer without the embedded model's word about itself."""
    return answer.replace(HINT, "").strip()


def _points(answer: str) -> Iterator[str]:
    text = "\n".join(line for line in answer.splitlines() if "|" not in line and not line.lstrip().startswith("#"))
    bullets = _POINT.findall(text)
    for point in bullets or _SENTENCE.split(" ".join(text.split())):
        tidy = " ".join(point.split())
        if len(tidy) > 3:
            yield tidy if len(tidy) <= _LONGEST_POINT else f"{tidy[:_LONGEST_POINT].rstrip()}…"


def _rest(result: TaskResult, was_read: bool) -> str:
    """What a sub-task says where there is no sentence left to quote."""
    if was_read:
        return "Nothing beyond what is said above."
    return _unmarked(result.answer).strip() or "Nothing was found."


def _unmarked(text: str) -> str:
    """A sentence without the citations of the page that it is from; ours would be taken for them."""
    return re.sub(r"\s*\[\d+\]", "", text)


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
