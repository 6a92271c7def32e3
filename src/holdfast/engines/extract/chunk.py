"""Owns chunking: text cut into passages of about 250 tokens that keep to its structure."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAX_TOKENS = 220
"""Leaves room in a 256-token embedder for the title and the heading path."""

_TOKEN = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[^\sA-Za-z\d]")
_UNDERLINE = re.compile(r"(=+|-+)[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+")
_MAX_HEADING = 120
_SHORT = 100_000


@dataclass(frozen=True, slots=True)
class Chunk:
    """One passage: its text, the headings it stands under, and the page (slide, sheet) where the file has such."""

    text: str
    heading: str = ""
    page: int | None = None


def count_tokens(text: str) -> int:
    """About how many tokens an embedder sees; errs on the high side."""
    # A list is twice as fast, but of a large text it would take more memory than the text.
    return len(_TOKEN.findall(text)) if len(text) <= _SHORT else sum(1 for _ in _TOKEN.finditer(text))


def chunk_text(text: str, *, heading: str = "", page: int | None = None) -> Iterator[Chunk]:
    """Plain text: whole paragraphs together, long ones cut at sentences or lines."""
    for passage in pack(_paragraphs(text.splitlines())):
        yield Chunk(passage, heading, page)


def chunk_markdown(text: str) -> Iterator[Chunk]:
    """Markdown: a passage never spans two sections and carries the path of headings above it."""
    path: list[tuple[int, str]] = []
    for level, heading, _, lines in sections(text.splitlines()):
        if level:
            path = [*[(above, title) for above, title in path if above < level], (level, heading)]
        trail = " › ".join(title for _, title in path)
        for passage in chunk_paragraphs(lines):
            yield Chunk(passage, trail)


def chunk_paragraphs(lines: list[str]) -> Iterator[str]:
    """Lines of one section in passages."""
    return pack(_paragraphs(lines))


def pack(blocks: Iterable[str], *, joint: str = "\n\n") -> Iterator[str]:
    """Blocks joined while they fit into one passage; a block that is too long alone is cut."""
    held: list[str] = []
    size = 0
    for block in blocks:
        tokens = count_tokens(block)
        if held and size + tokens > MAX_TOKENS:
            yield joint.join(held)
            held, size = [], 0
        if tokens > MAX_TOKENS:
            yield from split(block)
        else:
            held.append(block)
            size += tokens
    if held:
        yield joint.join(held)


def split(block: str) -> Iterator[str]:
    """A block too long for one passage, cut at line ends, else sentence ends, else words, else anywhere."""
    lines = [line for line in block.split("\n") if line.strip()]
    if len(lines) > 1:
        yield from pack(lines, joint="\n")
        return
    sentences = _SENTENCE.split(block)
    if len(sentences) > 1:
        yield from pack(sentences, joint=" ")
        return
    ends = [token.end() for token in _TOKEN.finditer(block)]
    start = 0
    while start < len(block):
        following = next_end(ends, start)
        # A cut between words reads better, where there is one in the second half.
        space = block.rfind(" ", start + (following - start) // 2, following)
        end = following if following >= len(block) or space < 0 else space + 1
        if passage := block[start:end].strip():
            yield passage
        start = end


def next_end(ends: list[int], start: int) -> int:
    """Where the passage that begins at `start` must end at the latest."""
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if ends[middle] <= start else (low, middle)
    return ends[min(low + MAX_TOKENS, len(ends)) - 1] if low < len(ends) else 1 << 62


def sections(lines: list[str]) -> Iterator[tuple[int, str, int, list[str]]]:
    """(level, heading, index of the first body line, body lines) of each section; level 0 before the first heading."""
    level, heading, first, body = 0, "", 0, list[str]()
    fence = ""
    for number, line in enumerate(lines):
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]) else fence
        elif mark:
            fence = mark[1]
        elif found := _heading(line):
            yield level, heading, first, body
            level, heading, first, body = *found, number + 1, []
            continue
        elif _UNDERLINE.fullmatch(line) and body and body[-1].strip() and (len(body) < 2 or not body[-2].strip()):
            title = body.pop().strip()[:_MAX_HEADING]
            yield level, heading, first, body
            level, heading, first, body = (1 if line.startswith("=") else 2), title, number + 1, []
            continue
        body.append(line)
    yield level, heading, first, body


def _heading(line: str) -> tuple[int, str] | None:
    """The level and the words of a `## heading`, its closing marks left out."""
    level = len(line) - len(line.lstrip("#"))
    if not 1 <= level <= 6 or not line[level : level + 1].isspace():
        return None
    title = line[level:].strip()
    bare = title.rstrip("#")
    return level, (bare.strip() if not bare or bare[-1].isspace() else title)[:_MAX_HEADING]


def _paragraphs(lines: list[str]) -> Iterator[str]:
    """Blocks between blank lines; a fenced block of code stays whole."""
    held: list[str] = []
    fence = ""
    for line in lines:
        mark = _FENCE.match(line)
        if not fence and mark:
            fence = mark[1]
        elif fence and mark and mark[1].startswith(fence):
            fence = ""
        if line.strip() or fence:
            held.append(line.rstrip())
        elif held:
            yield "\n".join(held)
            held = []
    if held:
        yield "\n".join(held)
