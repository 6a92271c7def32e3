"""Owns the reading of other people's Markdown: notes, agent instruction files, basic-memory's notes."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from holdfast.features.interchange.formats.front import moment_or_none, texts
from holdfast.features.interchange.model import Item, Note, NoteLink
from holdfast.features.memory.model import MAX_CHARACTERS, MAX_TITLE, MAX_WORDS

INSTRUCTIONS = frozenset(
    {"claude.md", "claude.local.md", "agents.md", "agent.md", "gemini.md", "copilot-instructions.md", "cursorrules.md"}
)
_CODE_FENCE = re.compile(r"[ \t]{0,3}(```+|~~~+)")
# Every part is bounded: what repeats without end is tried again from each of its places.
_RELATION = re.compile(r"[-*][ \t]{1,8}([^\[\]\n]{0,80})\[\[([^\[\]\n]{1,300})\]\]")
_CREATED = ("occurred_at", "date", "created", "created_at")


def read_markdown(file: str, front: dict[str, Any], body: str) -> Iterator[Item]:
    """A note as one memory where it fits, by sections where it does not; instruction files always by sections."""
    name = PurePosixPath(file).name
    if name.lower() in INSTRUCTIONS:
        for heading, text in _sections(body):
            yield from _notes(file, heading or name, text, category="instruction", tags=("agents",))
        return
    title = str(front.get("title") or _first_heading(body) or PurePosixPath(file).stem)
    occurred = next((at for key in _CREATED if (at := moment_or_none(front.get(key))) is not None), None)
    category = _category(front)
    tags = texts(front.get("tags"))
    names = tuple(str(each) for each in (front.get("title"), front.get("permalink"), PurePosixPath(file).stem) if each)
    parts = [(title, body)] if _fits(body) else [(_below(title, head), text) for head, text in _sections(body)]
    for heading, text in parts:
        yield from _notes(file, heading, text, category, tags, occurred, names)
        names = ()
    for match in _RELATION.finditer(body):
        target = match.group(2).split("|")[0].split("#")[0].strip()
        if target:
            yield NoteLink(file, title, match.group(1).strip() or "relates_to", target)


def _category(front: dict[str, Any]) -> str | None:
    """A category of ours as it is; basic-memory's `type: note` says nothing."""
    given = front.get("category") or front.get("type")
    word = str(given).strip().lower() if isinstance(given, str) else ""
    return word if re.fullmatch(r"[a-z][a-z0-9_-]{0,39}", word) and word not in ("note", "entity") else None


def _below(title: str, heading: str) -> str:
    """A section's name with the note's before it, once."""
    return heading if heading.startswith(title) else f"{title} – {heading}" if heading else title


def _notes(
    file: str,
    title: str,
    text: str,
    category: str | None = None,
    tags: tuple[str, ...] = (),
    occurred_at: int | None = None,
    names: tuple[str, ...] = (),
) -> Iterator[Note]:
    pieces = [text] if _fits(text) else list(_pieces(text))
    for number, piece in enumerate(pieces, 1):
        if not piece.strip():
            continue
        heading = (title if len(pieces) == 1 else f"{title} ({number})")[:MAX_TITLE]
        yield Note(file, piece.strip(), heading, category, tags, occurred_at, source=file, names=names)
        names = ()


def _fits(text: str) -> bool:
    return len(text) <= MAX_CHARACTERS and len(text.split()) <= MAX_WORDS


def _first_heading(body: str) -> str | None:
    for line in body.splitlines():
        if line.strip():
            found = _heading(line.strip())
            return found[1] if found else None
    return None


def _heading(line: str) -> tuple[int, str] | None:
    """The level and the words of a `## heading`, its closing marks left out."""
    level = len(line) - len(line.lstrip("#"))
    words = line[level:].strip().rstrip("#").rstrip() or line[level:].strip()
    return (level, words) if 1 <= level <= 6 and line[level : level + 1] in (" ", "\t") and words else None


def _sections(body: str) -> Iterator[tuple[str, str]]:
    """Each heading's own text with the headings above it as its name; a `#` inside a code block is no heading."""
    trail: list[tuple[int, str]] = []
    lines: list[str] = []
    fence = ""
    for line in body.splitlines():
        marker = _CODE_FENCE.match(line)
        if marker and not fence:
            fence = marker.group(1)
        elif marker and marker.group(1).startswith(fence):
            fence = ""
        heading = None if fence or not line.startswith("#") else _heading(line.strip())
        if heading is None:
            lines.append(line)
            continue
        if "".join(lines).strip():
            yield " – ".join(text for _, text in trail), "\n".join(lines).strip()
        lines = []
        level = heading[0]
        trail = [*(each for each in trail if each[0] < level), heading]
    if "".join(lines).strip():
        yield " – ".join(text for _, text in trail), "\n".join(lines).strip()


def _pieces(text: str) -> Iterator[str]:
    """A text cut at paragraphs, or inside one that is too long by itself."""
    piece = ""
    for paragraph in re.split(r"\n\s*\n", text):
        if piece and not _fits(f"{piece}\n\n{paragraph}"):
            yield piece
            piece = ""
        piece = f"{piece}\n\n{paragraph}" if piece else paragraph
        start = 0
        # By position: to copy what is left at each cut would take the square of a long paragraph.
        while not _fits(piece[start : start + MAX_CHARACTERS + 1]):
            cut = " ".join(piece[start : start + MAX_CHARACTERS].split(" ")[: MAX_WORDS // 2])[: MAX_CHARACTERS // 2]
            yield cut
            start += len(cut)
        piece = piece[start:].lstrip() if start else piece
    if piece:
        yield piece
