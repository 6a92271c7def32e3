"""Owns architecture decision records: where they are kept, and what one says."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.clock import parse_time
from holdfast.core.errors import Invalid
from holdfast.features.intelligence.model import Status
from holdfast.features.synthesis.sources.quoting import DocumentBlock, blocks, plain, shortened

_PLACE = re.compile(
    r"(?:^|/)(?:adrs?|decisions|decision-records|architecture[-_ ]decisions?|architecture-decision-records?)/"
    r"(?:[^/]+/)?[^/]+\.(?:md|markdown|rst|adoc|txt)$",
    re.IGNORECASE,
)
_NOT_ONE = re.compile(r"(?:^|/)(?:readme|index|template|_template|adr-template|0000-.*template)[^/]*$", re.IGNORECASE)
_NUMBER = re.compile(r"(?:^|/)(?:adr[-_ ]?)?0*(\d{1,5})[-_. ]", re.IGNORECASE)
_TITLE_MARK = re.compile(r"^(?:adr[-_ ]?)?\d{1,5}\s*[.:)\-–—]\s*|^adr\s*[:\-–—]\s*", re.IGNORECASE)
_FIELD = re.compile(r"^[\s*+-]*[*_]{0,2}(status|date)[*_]{0,2}\s*[:：][*_]{0,2}\s*(.+)$", re.IGNORECASE)
_LED = re.compile(r"^\*\*([A-Za-z ]{4,40})[.:]?\*\*[.:]?\s*(.*)$", re.S)
_BY = re.compile(r"(?:superseded|replaced)\s+by\D{0,40}?0*(\d{1,5})", re.IGNORECASE)
_WORDS: tuple[tuple[str, Status], ...] = (
    ("supersed", "superseded"),
    ("replaced", "superseded"),
    ("deprecat", "superseded"),
    ("obsolete", "superseded"),
    ("withdrawn", "rejected"),
    ("reject", "rejected"),
    ("declin", "rejected"),
    ("defer", "deferred"),
    ("on hold", "deferred"),
    ("propos", "proposed"),
    ("draft", "proposed"),
    ("pending", "proposed"),
    ("review", "proposed"),
)


@dataclass(frozen=True, slots=True)
class Adr:
    """A decision record: what was decided and why, with the lines that say so."""

    path: str
    title: str
    status: Status
    context: str
    decision: str
    alternatives: tuple[str, ...]
    start_line: int
    end_line: int
    decided_at: int | None = None
    number: int | None = None
    superseded_by: int | None = None


def is_adr(path: str) -> bool:
    """Whether a file is a decision record, by where it lies."""
    return _PLACE.search(path) is not None and _NOT_ONE.search(path) is None


def parse_adr(path: str, lines: Sequence[str]) -> Adr | None:
    """What a record says; None when it has no title or decides nothing."""
    body, fields = _front_matter(lines)
    found = list(blocks(body))
    title = next((block.text for block in found if block.level), "")
    title = _TITLE_MARK.sub("", title or fields.get("title", "")).strip()
    sections = _sections(body, found)
    for line in body:
        if field := _FIELD.match(line):
            fields.setdefault(field[1].lower(), plain(field[2]))
    said = fields.get("status") or _joined(sections, "status")
    context = _joined(sections, "context", "problem")
    decision = _joined(sections, "decision outcome", "decision", "outcome", "solution")
    if not title or not (context or decision):
        return None
    number = _NUMBER.search(path)
    successor = _BY.search(said)
    cited = [block for name in ("decision", "context", "status") for block in _named(sections, name)]
    return Adr(
        path=path,
        title=shortened(title, 200),
        status=_status(said),
        context=shortened(context, 700),
        decision=shortened(decision, 900),
        alternatives=_alternatives(sections),
        start_line=1,
        end_line=max((block.end_line for block in cited), default=len(lines)) + len(lines) - len(body),
        decided_at=_moment(fields.get("date", "")),
        number=int(number[1]) if number else None,
        superseded_by=int(successor[1]) if successor else None,
    )


def _front_matter(lines: Sequence[str]) -> tuple[Sequence[str], dict[str, str]]:
    if not lines or lines[0].strip() != "---":
        return lines, {}
    end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
    if end is None:
        return lines, {}
    pairs = [line.partition(":") for line in lines[1:end] if ":" in line]
    return lines[end + 1 :], {name.strip().lower(): value.strip().strip("\"'") for name, _, value in pairs}


def _sections(lines: Sequence[str], found: Sequence[DocumentBlock]) -> dict[str, list[DocumentBlock]]:
    """The blocks under each heading, or after a bold word that leads a paragraph."""
    sections: dict[str, list[DocumentBlock]] = {}
    for block in found:
        if block.level or block.code:
            continue
        led = _LED.match(" ".join(line.strip() for line in lines[block.start_line - 1 : block.end_line]))
        if led is not None:
            name, text = led[1].strip().lower(), plain(led[2])
            sections.setdefault(name, []).append(DocumentBlock(text, block.start_line, block.end_line, name))
        elif block.heading:
            sections.setdefault(block.heading.lower(), []).append(block)
    return sections


def _named(sections: dict[str, list[DocumentBlock]], name: str) -> list[DocumentBlock]:
    exact = sections.get(name)
    if exact:
        return exact
    return next((found for title, found in sections.items() if title.startswith(name)), [])


def _joined(sections: dict[str, list[DocumentBlock]], *names: str) -> str:
    for name in names:
        found = _named(sections, name)
        if found:
            return " ".join(block.text for block in found if block.text)
    return ""


def _alternatives(sections: dict[str, list[DocumentBlock]]) -> tuple[str, ...]:
    found = [
        block.text for name in ("considered options", "alternatives", "options") for block in _named(sections, name)
    ]
    return tuple(shortened(text, 300) for text in dict.fromkeys(found) if text)[:8]


def _status(said: str) -> Status:
    words = said.lower()
    return next((status for word, status in _WORDS if word in words), "accepted")


def _moment(text: str) -> int | None:
    found = re.search(r"\d{4}-\d{2}-\d{2}", text)
    if found is None:
        return None
    try:
        return parse_time(found[0], "date")
    except Invalid:
        return None
