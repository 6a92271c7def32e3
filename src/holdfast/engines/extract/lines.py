"""Owns telling which lines of a file each of its passages covers."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from holdfast.engines.extract.chunk import Chunk, chunk_paragraphs, sections


@dataclass(frozen=True, slots=True)
class NumberedPassage:
    """A passage and its lines, counted from 1, both included."""

    text: str
    heading: str
    start_line: int
    end_line: int


def number(text: str, chunks: Iterable[Chunk]) -> Iterator[NumberedPassage]:
    """Passages that together hold all of a text, with their lines."""
    return _number(text.split("\n"), chunks, 1)


def number_markdown(text: str) -> Iterator[NumberedPassage]:
    """Markdown by its sections, as `chunk_markdown` cuts it, with lines."""
    return number_sections(sections(text.split("\n")))


def number_sections(found: Iterable[tuple[int, str, int, list[str]]]) -> Iterator[NumberedPassage]:
    """Any text by sections: (level, heading, index of the first line of the body, body)."""
    path: list[tuple[int, str]] = []
    for level, heading, first, body in found:
        if level:
            path = [*[(above, title) for above, title in path if above < level], (level, heading)]
        trail = " › ".join(title for _, title in path)
        yield from _number(body, (Chunk(passage, trail) for passage in chunk_paragraphs(body)), first + 1)


def _number(lines: list[str], chunks: Iterable[Chunk], first_line: int) -> Iterator[NumberedPassage]:
    # Cutting changes only white space, so a passage is where its visible characters are.
    ends = list(accumulate(_visible(line) for line in lines))
    position = 0
    for chunk in chunks:
        size = _visible(chunk.text)
        if not size:
            continue
        start = bisect_right(ends, position)
        position += size
        end = bisect_right(ends, position - 1)
        yield NumberedPassage(chunk.text, chunk.heading, first_line + start, first_line + min(end, len(lines) - 1))


def _visible(text: str) -> int:
    return sum(map(len, text.split()))
