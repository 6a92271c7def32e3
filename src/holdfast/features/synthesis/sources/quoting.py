"""Owns quoting: sentences out of messages and Markdown, tidy enough to be repeated and free of credentials."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.core.text.secrets_scan import first_secret_kind

MAX_QUOTE = 400
_MOST_PLAIN = 6_000

_TRAILER = re.compile(
    r"^(signed-off-by|co-authored-by|reviewed-by|acked-by|tested-by|change-id|cc|reported-by|fixes|closes|refs|"
    r"see-also|git-svn-id|bug|issue|pr|differential revision)\s*:",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[`*]*[A-Z0-9])")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*(?:\s\"[^\"]*\")?\)")
_REFERENCE = re.compile(r"\[([^\]]+)\]\[[^\]]*\]")
_TAG = re.compile(r"<!--.*?-->|</?[a-zA-Z][^<>]*>", re.S)
_FENCE = re.compile(r"^\s{0,3}(```|~~~)")


@dataclass(frozen=True, slots=True)
class DocumentBlock:
    """A paragraph, bullet or heading of a document, with the lines it stands on."""

    text: str
    start_line: int
    end_line: int
    heading: str = ""
    """The heading it stands under."""
    level: int = 0
    """Of a heading, how deep it is; 0 for text."""
    code: bool = False


def sentences(message: str) -> Iterator[str]:
    """The sentences of a commit message's body or an item's text: lines unwrapped, trailers and code left out."""
    held: list[str] = []
    fenced = False
    for line in [*message.splitlines(), ""]:
        if _FENCE.match(line):
            fenced = not fenced
            continue
        if fenced:
            continue
        starts = _BULLET.match(line) is not None
        if not line.strip() or starts or _TRAILER.match(line) or line.lstrip().startswith(("#", ">", "|")):
            yield from _cut(" ".join(held))
            held = [_BULLET.sub("", line).strip()] if starts else []
        else:
            held.append(line.strip())
    yield from _cut(" ".join(held))


def blocks(lines: Sequence[str]) -> Iterator[DocumentBlock]:
    """A Markdown or plain document in blocks, each under its heading."""
    heading, held, first, fenced = "", list[str](), 0, False
    for number, line in enumerate([*lines, ""], 1):
        fence = _FENCE.match(line) is not None
        if fenced or fence:
            if held and not fenced:
                yield _text(held, first, number - 1, heading)
                held = []
            first = first if held else number
            held.append(line)
            if fenced and fence:
                yield DocumentBlock("\n".join(held[1:-1]), first, number, heading, code=True)
                held, fenced = [], False
            else:
                fenced = True
            continue
        level = len(line) - len(line.lstrip("#")) if line.startswith("#") else 0
        title = line.lstrip("#").strip() if 0 < level <= 6 and line[level : level + 1].isspace() else ""
        underlined = held and len(held) == 1 and re.fullmatch(r"(=+|-{3,})\s*", line) is not None
        if underlined:
            title, level = held[0].strip(), 1 if line.startswith("=") else 2
            held = []
        ends = not line.strip() or bool(title) or _BULLET.match(line) is not None or line.lstrip().startswith("|")
        if held and ends:
            yield _text(held, first, number - 1, heading)
            held = []
        if title:
            heading = plain(title).rstrip("# ")
            yield DocumentBlock(heading, number - 1 if underlined else number, number, heading, level)
        elif line.strip():
            first = first if held else number
            held.append(line)
    if held:
        yield (
            DocumentBlock("\n".join(held[1:]), first, len(lines), heading, code=True)
            if fenced
            else _text(held, first, len(lines), heading)
        )


def _text(held: Sequence[str], first: int, last: int, heading: str) -> DocumentBlock:
    return DocumentBlock(plain(" ".join(line.strip() for line in held)), first, last, heading)


def plain(text: str) -> str:
    """Words without the marks of Markdown, on one line; only the beginning of a very long text."""
    text = text[:_MOST_PLAIN]
    words = _TAG.sub(" ", _REFERENCE.sub(r"\1", _LINK.sub(r"\1", text)))
    words = re.sub(r"(?<![A-Za-z0-9])[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}(?![A-Za-z0-9])", "", words)
    return " ".join(_BULLET.sub("", words).split())


def first_sentence(text: str, most: int = 240) -> str:
    """The first sentence of a text, cut at a word where it is too long."""
    return shortened(next(_cut(" ".join(text.split())), ""), most)


def shortened(text: str, most: int = MAX_QUOTE) -> str:
    """The text, or its beginning up to a word."""
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    return f"{cut[: max(cut.rfind(' '), most // 2)].rstrip(' ,;:')}…"


def is_fit(*texts: str) -> bool:
    """Whether texts may be repeated: no credential in them, nothing that no store can hold."""
    return first_secret_kind(texts) is None and not any("\0" in text for text in texts)


def _cut(text: str) -> Iterator[str]:
    for sentence in _END.split(text):
        if sentence.strip():
            yield sentence.strip()
