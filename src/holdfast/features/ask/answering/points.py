"""Owns the points of a text: its paragraphs and list items as one line each, with what stands above and below them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MOST_LABEL = 90
"""Characters of a line that is taken for a heading of the points below it."""
_MARKUP = ("<", "[![", ":::", "???")
"""How lines begin that say nothing to a reader: tags, badges, directives."""
_TAGS = re.compile(r"(?:<[^<>]+>\s*)+")
_CONTENTS = re.compile(r"\s*(?:[-*+]|\d+[.)])?\s*\[[^\]]*\]\(#[^)]*\)\s*")
"""A line of a table of contents: it names what stands elsewhere."""
_DEFINED_LINK = re.compile(r"\s*\[[^\]]+\]:\s+\S+.*")
"""A line that says where a link of the text leads."""
_NEW_POINT = re.compile(r"\s*(?:[-*+•>#|]|\d{1,3}[.)])\s*\S")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+\S")
_LABEL = re.compile(r"#+\s.*|\*\*[^*]+\*\*:?|.*:")
_SIGNS = re.compile(r"[{};=<>()\[\]|&]")
MOST_SIGNS = 0.14
LEAST_TAGGED = 4
"""Words between tags that are a statement; fewer are a button or a badge."""


def is_prose(text: str) -> bool:
    """Whether a line is a sentence rather than code, of which a passage that begins in an example has some."""
    return not text.startswith(("//", "#[", "@", "import ", "func ", "def ")) and (
        len(_SIGNS.findall(text)) <= MOST_SIGNS * len(text)
    )


@dataclass(slots=True)
class Point:
    """One statement of a text."""

    text: str
    indent: int = 0
    is_item: bool = False
    above: str = ""
    """The point or the label that it stands under."""
    below: list[str] = field(default_factory=list)
    """What stands right under it."""


def paragraphs(text: str) -> Iterator[str]:
    """Paragraphs and points of a text as one line each: messages are wrapped, and sentences go on in the next line."""
    return (point.text for point in _read(text))


def points(text: str) -> list[Point]:
    """The same, each with what is above and below it: what is listed under "Removed:" was removed."""
    found: list[Point] = []
    open_points: list[Point] = []
    label = ""
    for point in _read(text):
        while open_points and open_points[-1].indent >= point.indent:
            open_points.pop()
        if open_points:
            point.above = open_points[-1].text
            open_points[-1].below.append(point.text)
        elif point.is_item:
            point.above = label
        else:
            label = point.text if len(point.text) <= MOST_LABEL and _LABEL.fullmatch(point.text) else ""
        if point.is_item:
            open_points.append(point)
        found.append(point)
    return found


def _read(text: str) -> Iterator[Point]:
    held: Point | None = None
    is_code = False
    for line in [*text.splitlines(), ""]:
        if line.lstrip().startswith(("```", "~~~")):
            is_code = not is_code
            line = ""
        line = _untagged(line)
        if line.lstrip().startswith(_MARKUP) or _CONTENTS.fullmatch(line) or _DEFINED_LINK.fullmatch(line):
            line = ""
        starts = _NEW_POINT.match(line) is not None
        if is_code or not line.strip() or starts:
            if held is not None:
                yield held
            held = None
        if not is_code and line.strip():
            if held is None:
                held = Point(line.strip(), len(line) - len(line.lstrip()), _ITEM.match(line) is not None)
            else:
                held.text = f"{held.text} {line.strip()}"


def _untagged(line: str) -> str:
    """A line without the tags around it: `<span style="color:red">NOTE: …</span>` says something."""
    opening = _TAGS.match(line.lstrip())
    if opening is None:
        return line
    inner = line.lstrip()[opening.end() :]
    while closing := re.search(r"\s*</\w+>\s*$", inner):
        inner = inner[: closing.start()]
    return inner if is_prose(inner) and len(inner.split()) >= LEAST_TAGGED else line
