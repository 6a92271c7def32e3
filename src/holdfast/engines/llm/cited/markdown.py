"""Owns reading the Markdown of an answer: its blocks, its sentences, and citations in one way of writing them."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from holdfast.engines.llm.citations import CITATION

BlockKind = Literal["heading", "paragraph", "item", "row", "rule", "code", "blank"]

_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+\S|^\s{0,3}\*\*[^*\n.]{1,80}\*\*:?\s*$")
_ITEM = re.compile(r"^(\s*(?:>\s*)*(?:[-*+•]|\d{1,3}[.)])\s+)(.*)$")
_ROW = re.compile(r"^\s*\|.*\|\s*$")
_RULE = re.compile(r"^\s*(?:\|?\s*:?-{2,}:?\s*)(?:\|\s*:?-{2,}:?\s*)*\|?\s*$|^\s*(?:\*\s*){3,}$|^\s*={3,}\s*$")
_QUOTE = re.compile(r"^((?:\s*>\s?)+)(.*)$")
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_HIDDEN = re.compile(r"\ue000(\d+)\ue001")
_PRIVATE = re.compile("[\ue000\ue001]")
_END = re.compile(r"""[.!?…](?:["”'’)*_]|\ue000\d+\ue001)*\s+(?=\S)""")
_SHORT = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|approx|incl|resp|no|nr|[A-Z])\.$", re.I)
_ONLY_MARKS = re.compile(r"(?:\s|\ue000\d+\ue001|[.,;:])*")
_LEADING = re.compile(r"(?:\s*\ue000\d+\ue001)+[.,;]?\s*")
_OWN_LIST = re.compile(
    r"^\s{0,3}(?:#{1,6}\s*|\*\*)?(?:sources|references|citations|bibliography)\s*:?\s*(?:\*\*)?\s*:?\s*$", re.I
)
_IMAGE = re.compile(r"!\[([^\[\]\n]*)\]\([^()\n]*\)")
_LINK = re.compile(r"(?<!!)\[([^\[\]\n]+)\]\(\s{0,9}<?([^()\s<>]+)>?[^()\n]*\)")
_RANGE = re.compile(r"\[\s*(\d{1,4})\s*[-–]\s*(\d{1,4})\s*\]")
_OTHER = re.compile(
    r"\[\s*(?:\^|sources?\s+|refs?\.?\s+)(\d{1,4}(?:\s*[,;]\s*\d{1,4})*)\s*\]"
    r"|\[\s*(\d{1,4}(?:\s*;\s*\d{1,4})+)\s*\]|【(\d{1,4})[^】\n]*】",
    re.I,
)
_ADDRESS = re.compile(r"\[([a-z0-9][a-z0-9-]{0,99}[@#!:][^\[\]\s`]{1,999})\]")
_QUOTED_ADDRESS = re.compile(r"\[`([a-z0-9][a-z0-9-]{0,99}[@#!:][^\[\]\s`]{1,999})`\]")
_TAG = re.compile(r"(?<!\\)<(?=[A-Za-z/!?])(?!https?://)")
_MOST_IN_RANGE = 20


@dataclass(frozen=True, slots=True)
class Block:
    """A part of the answer. `lead` is what stands before its text: a bullet, a quotation mark."""

    kind: BlockKind
    text: str
    lead: str = ""


def blocks(text: str) -> Iterator[Block]:
    """The blocks of an answer; lines of one paragraph or item become one line."""
    lines = text.replace("\r\n", "\n").split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        fence = _FENCE.match(line)
        if fence:
            end = _fence_end(lines, at + 1, fence[1])
            yield Block("code", "\n".join([*lines[at:end], fence[1]]))
            at = end + 1
            continue
        at += 1
        kind = _kind(line)
        if kind in ("blank", "heading", "row", "rule"):
            yield Block(kind, line.strip())
            continue
        lead, rest = _led(line)
        said = [rest.strip()]
        while at < len(lines) and _goes_on(lines[at], lead):
            said.append(_led(lines[at])[1].strip() if lead.lstrip().startswith(">") else lines[at].strip())
            at += 1
        yield Block(kind, " ".join(part for part in said if part), lead)


def sentences(text: str) -> list[str]:
    """The sentences of a block, each with the citations behind it; quotations and code are not cut."""
    hidden: list[str] = []
    masked = _masked(text, hidden)
    parts, begin = list[str](), 0
    for end in _END.finditer(masked):
        if not _SHORT.search(masked[max(begin, end.start() - 12) : end.start() + 1]):
            parts.append(masked[begin : end.end()])
            begin = end.end()
    parts.append(masked[begin:])
    joined: list[str] = []
    for part in parts:
        if joined and _ONLY_MARKS.fullmatch(part):
            joined[-1] += part
            continue
        leading = _LEADING.match(part) if joined else None
        # "[2] says so": there the number is what the sentence is about.
        if leading and not part[leading.end() : leading.end() + 1].islower():
            joined[-1] += leading[0]
            part = part[leading.end() :]
        joined.append(part)
    return [_shown(part, hidden).strip() for part in joined if part.strip()]


def cited_in(text: str) -> list[int]:
    """The numbers that a text cites, outside of code."""
    found: list[int] = []
    for each in _outside_code(text):
        for citation in CITATION.finditer(each):
            found += [int(number) for number in citation[1].split(",")]
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a sentence, and the citations right behind it; the last stretch may have none."""

    text: str
    citations: tuple[tuple[int, str], ...]
    """Numbers, each with the words that were quoted in it."""


def parts_of(sentence: str) -> list[Part]:
    """A sentence cut behind its citations; a stretch of marks alone belongs to what is before it."""
    hidden: list[str] = []
    masked = _masked(sentence, hidden)
    found: list[Part] = []
    said, at, cited = "", 0, list[tuple[int, str]]()
    for mark in _HIDDEN.finditer(masked):
        citation = None if hidden[int(mark[1])].startswith("`") else CITATION.fullmatch(hidden[int(mark[1])])
        if citation is None:
            continue
        between, at = masked[at : mark.start()], mark.end()
        if cited and not _ONLY_MARKS.fullmatch(between):
            found.append(Part(_shown(said, hidden), tuple(cited)))
            said, cited = "", []
        said += between
        quote = (citation[2] or "").strip()
        cited += [(int(number), quote) for number in citation[1].split(",")]
    tail = masked[at:]
    if cited:
        found.append(Part(_shown(said, hidden), tuple(cited)))
    if not cited or not _ONLY_MARKS.fullmatch(tail):
        found.append(Part(_shown(tail, hidden), ()))
    return found


def marked(sentence: str, kept: Mapping[int, bool]) -> str:
    """A sentence with those citations that are kept, each as `[3]`."""
    hidden: list[str] = []
    masked = _masked(sentence, hidden)

    def shown(found: "re.Match[str]") -> str:
        was = hidden[int(found[2])]
        citation = None if was.startswith("`") else CITATION.fullmatch(was)
        if citation is None:
            return found[1] + was
        numbers = [int(number) for number in citation[1].split(",")]
        marks = "".join(f"[{number}]" for number in dict.fromkeys(numbers) if kept.get(number))
        return found[1] + marks if marks else ""

    return re.sub(r"(\s*)\ue000(\d+)\ue001", shown, masked)


def quoted(words: str, number: int) -> str:
    """Words of a source as a quotation of it."""
    bare = inert(_LINK.sub(r"\1", _IMAGE.sub(r"\1", words))).replace('"', "'")
    return f'"{bare}" [{number}]'


def tidied(text: str, numbers: Mapping[str, int], urls: frozenset[str]) -> str:
    """An answer with all citations as `[3]`, without pictures, links to elsewhere, and its own list of sources.

    `numbers` are those of the addresses that sources have; a citation of any other address becomes `[0]`.
    """

    def plain(part: str) -> str:
        part = _IMAGE.sub(r"\1", part)
        part = _LINK.sub(lambda link: _linked(link, urls), part)
        part = _RANGE.sub(_counted, part)
        part = _OTHER.sub(lambda other: f"[{(other[1] or other[2] or other[3]).replace(';', ',')}]", part)
        return _ADDRESS.sub(lambda address: f"[{numbers.get(address[1], 0)}]", part)

    kept, in_list = list[str](), False
    for line, is_code in _lines(_PRIVATE.sub("", text)):
        if not is_code and _OWN_LIST.match(line):
            in_list = True
            continue
        if not is_code and in_list and _HEADING.match(line):
            in_list = False
        if not in_list:
            kept.append(line if is_code else _replaced(line, plain))
    return "\n".join(kept)


def without_html(text: str) -> str:
    """An answer in which nothing is HTML: an element of somebody else's may load a picture or hide words."""
    return "\n".join(line if is_code else _replaced(line, _no_tags) for line, is_code in _lines(text))


def inert(words: str) -> str:
    """Words of others for a line of ours: no picture, no element, and no number that could be taken for our own."""
    words = words.strip("| ")
    if words.count("**") % 2:
        # Half of an emphasis that began before the words, or ends behind them.
        words = words.replace("**", "", 1)
    return _no_tags(re.sub(r"!\[", r"!\\[", re.sub(r"\[(\d+)\]", r"\\[\1\\]", words)))


def _no_tags(text: str) -> str:
    return _TAG.sub(r"\\<", text)


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is part of a block of code."""
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        yield line, bool(fence or mark)


def _kind(line: str) -> BlockKind:
    if not line.strip():
        return "blank"
    if _HEADING.match(line):
        return "heading"
    if _RULE.match(line):
        return "rule"
    if _ROW.match(line):
        return "row"
    return "item" if _ITEM.match(line) else "paragraph"


def _led(line: str) -> tuple[str, str]:
    found = _ITEM.match(line) or _QUOTE.match(line)
    return (found[1], found[2]) if found else ("", line)


def _goes_on(line: str, lead: str) -> bool:
    if _FENCE.match(line) or _kind(line) != "paragraph":
        return False
    return bool(_QUOTE.match(line)) == lead.lstrip().startswith(">")


def _fence_end(lines: list[str], at: int, fence: str) -> int:
    while at < len(lines) and not lines[at].strip().startswith(fence):
        at += 1
    return at


def _masked(text: str, hidden: list[str]) -> str:
    """The text with code and citations hidden, so that a full stop in them ends no sentence."""
    out, at = list[str](), 0
    while at < len(text):
        code, citation = _CODE.search(text, at), CITATION.search(text, at)
        first = min((each for each in (code, citation) if each), key=lambda each: each.start(), default=None)
        if first is None:
            break
        out += [text[at : first.start()], f"\ue000{len(hidden)}\ue001"]
        hidden.append(first[0])
        at = first.end()
    return "".join([*out, text[at:]])


def _shown(text: str, hidden: list[str]) -> str:
    return _HIDDEN.sub(lambda mark: hidden[int(mark[1])], text)


def _outside_code(text: str) -> Iterator[str]:
    for block in blocks(text):
        if block.kind != "code":
            hidden: list[str] = []
            masked = _masked(block.text, hidden)
            yield _shown(masked, ["" if each.startswith("`") else each for each in hidden])


def _replaced(line: str, change: Callable[[str], str]) -> str:
    """The line with everything changed that is neither code nor a citation in the right form."""
    hidden: list[str] = []
    masked = _masked(_QUOTED_ADDRESS.sub(r"[\1]", line), hidden)
    # A citation that is a link is written `[3](address)`: the address goes.
    masked = re.sub(r"(\ue001)\((?:https?:|#|/)[^)\s]*\)", r"\1", masked)
    return _shown(change(masked), hidden)


def _linked(link: "re.Match[str]", urls: frozenset[str]) -> str:
    return link[0] if link[2] in urls else link[1]


def _counted(found: "re.Match[str]") -> str:
    first, last = int(found[1]), int(found[2])
    if not first <= last < first + _MOST_IN_RANGE:
        return found[0]
    return f"[{', '.join(str(number) for number in range(first, last + 1))}]"
