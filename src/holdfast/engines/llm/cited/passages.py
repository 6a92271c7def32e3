"""Owns cutting a source into passages: sentences under their headings, functions of code."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from holdfast.engines.llm.cited.reading import ReadText

_HEADING = re.compile(r"^\s{0,3}(#{1,6})\s+(.*?)#*\s*$")
_UNDERLINE = re.compile(r"^\s{0,3}(?:=+|-{3,}|~{3,}|\^{3,})\s*$")
_UNDERLINES = "=-~^"
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+(.*)$")
_END = re.compile(r"(?<=[.!?])[\"”')\]]*\s+(?=[\"“'(\[`*#]*[A-Z0-9#])|(?<=;)\s+|\s+[–—]\s+")
_CODE = re.compile(
    r"^\s*(?:def|class|async|return|import|from \S+ import|if .*:$|for .*:$|func|fn|const|let|var|public|private|"
    r"export|package|type|struct|@\w|[{}\])]|//|/\*|#include)|[{;]\s*$|\w\(.*\)|\w\s*=\s*\S|:\s*$"
)
_STARTS = re.compile(
    r"^\s*(?:(?:public|private|protected|export|static|async|default|pub)\s+)*(?:def|class|func|fn|function|interface|"
    r"struct|trait|impl|enum|type|module)\b"
)
_MOST_LINES = 40
_LONGEST = 2_000
_FENCE = re.compile(r"^\s*(?:`{3,}|~{3,})")


@dataclass(eq=False)
class Passage:
    """What a source says in one place."""

    text: str
    heading: str
    section: int
    """Passages of one section may be told together."""
    paragraph: int

    @cached_property
    def reading(self) -> ReadText:
        return ReadText(self.text)

    @cached_property
    def context(self) -> ReadText:
        """The headings that it stands under."""
        return ReadText(self.heading)


def passages(text: str) -> list[Passage]:
    """The passages of a source, in order."""
    cut = _Cut()
    for block in _blocks(text.split("\n")):
        cut.take(block)
    return cut.found


class _Cut:
    def __init__(self) -> None:
        self.found: list[Passage] = []
        self._headings: dict[int, str] = {}
        self._section = 0
        self._paragraph = 0

    def take(self, block: Sequence[str]) -> None:
        self._paragraph += 1
        if sum(1 for line in block if _CODE.search(line)) * 2 > len(block):
            self._code(block)
            return
        held: list[str] = []
        for number, line in enumerate(block):
            if _UNDERLINE.match(line) and number:
                continue
            heading = _heading(line, block[number + 1] if number + 1 < len(block) else "")
            if heading is not None:
                self._prose(held)
                held = []
                self._head(*heading)
            elif (item := _ITEM.match(line)) is not None:
                self._prose(held)
                held = [item[1].strip()]
            else:
                held.append(line.strip())
        self._prose(held)

    def _head(self, level: int, text: str) -> None:
        self._headings = {deep: said for deep, said in self._headings.items() if deep < level} | {level: text}
        self._section += 1
        self._add(text)

    def _prose(self, lines: Sequence[str]) -> None:
        for sentence in _END.split(" ".join(lines)):
            if sentence.strip():
                self._add(sentence.strip())

    def _code(self, lines: Sequence[str]) -> None:
        held: list[str] = []
        for line in lines:
            if held and (_STARTS.match(line) or len(held) >= _MOST_LINES):
                self._whole(held)
                held = []
            held.append(line)
        self._whole(held)

    def _whole(self, lines: Sequence[str]) -> None:
        # What one function says is not what the next one says.
        self._section += 1
        self._add("\n".join(lines))

    def _add(self, text: str) -> None:
        heading = " / ".join(self._headings.values())[:_LONGEST]
        # A minified file is one line without end.
        for begin in range(0, len(text), _LONGEST):
            self.found.append(Passage(text[begin : begin + _LONGEST], heading, self._section, self._paragraph))


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    held: list[str] = []
    for line in [*lines, ""]:
        if line.strip() and not _FENCE.match(line):
            held.append(line)
        elif held:
            yield held
            held = []


def _heading(line: str, next_line: str) -> tuple[int, str] | None:
    """The level and the words of a heading, with hashes before it or a line below it."""
    hashed = _HEADING.match(line)
    if hashed:
        return len(hashed[1]), hashed[2]
    if line.strip() and _UNDERLINE.match(next_line):
        return 1 + _UNDERLINES.index(next_line.strip()[0]), line.strip()
    return None
