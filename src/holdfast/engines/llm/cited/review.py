"""Owns the last look at what a model wrote: a sentence stays with a citation of its own that bears it out, or goes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.engines.llm.citations import CITATION, ReadSource
from holdfast.engines.llm.cited.markdown import Block, Part, blocks, cited_in, marked, parts_of, quoted, sentences
from holdfast.engines.llm.cited.reading import ReadText
from holdfast.engines.llm.cited.support import Support
from holdfast.engines.llm.cited.vocabulary import PLAIN
from holdfast.engines.search.text.analyser import query_words, words

_SUFFIXES = (
    "c|cc|cfg|clj|conf|cpp|cs|css|csv|dart|ex|exs|go|gradle|h|hpp|hs|html|ini|java|js|json|jsx|kt|lock|lua|md|mjs|mk|"
    "php|pl|proto|py|pyi|rb|rs|rst|scala|scss|sh|sql|svelte|swift|tf|toml|ts|tsx|txt|vue|xml|yaml|yml|zig"
)
# A bare name is taken for a file's only where it is written as code: Node.js is none.
_PATH = re.compile(rf"(?<![\w/.@:-])((?:(?:[\w.@+-]+/)+[\w.@+-]*|(?<=`)[\w.@+-]*)\w\.(?:{_SUFFIXES}))(?![\w/]|\.\w)")
_HASH = re.compile(r"(?<![\w.-])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}(?!\w|[.-]\w)")
_URL = re.compile(r"https?://[^\s)>\]\"'`]+")
_TELLS = (
    r"(?:find|found|mention|state|say|said|show|record|contain|tell|told|explain|give|answer|document|name)(?:s|ed)?"
)
_WHERE = r"(?:sources?|material|history|repositor(?:y|ies)|commits?|documentation|evidence|I|we)"
# What was not found, said of the sources and of nothing else: "the limiter does not record" is a claim.
_GAP = re.compile(
    rf"\b{_WHERE}\b.{{0,40}}?\b(?:could|can|did|do|does|have|has)(?: not|n[’']t|not)\b.{{0,20}}?\b{_TELLS}\b"
    rf"|^\W*(?:nothing|none|no (?:other |further )?{_WHERE})\b.{{0,60}}?\b{_TELLS}\b"
    rf"|\b(?:not|nothing|no)\b.{{0,60}}?\b(?:found|mentioned|stated|recorded|documented)\b in .{{0,20}}?\b{_WHERE}\b",
    re.I,
)
_LONGEST_GAP = 240
_TURN = re.compile(r"\b(?:but|however|though|although|yet|so|therefore|instead|because|likely|probably)\b", re.I)
_PLAIN_WORDS = (
    "above additional also answer aspect background based below brief change code commit context conclusion "
    "detail discuss document evidence example explain file find finding first follow following found from further "
    "given here history in introduction key line list main mention note number open overall overview part point "
    "question reason relate relevant report repository section second see short show source stay step summary "
    "summarize tell then third two three way"
)
_NEUTRAL = frozenset(words(_PLAIN_WORDS))
_ASKS = "who|whom|whose|when|where|why|how|which|what|whether|if"
_ASKING = re.compile(rf"\W*(?:{_ASKS})\b", re.I)
_OBJECT = re.compile(rf"\b{_TELLS}\b(.*)$", re.I)
_NAMED = re.compile(r"`[^`]+`|\b[A-Z][\w./@-]*")
_SPAN = re.compile(r"[\"“„«]([^\"“”„«»]{3,400})[\"”“»]")
_MARKS = re.compile(r"\s*\[\d+(?:\s*,\s*\d+)*\]")
_LEAST_CODE = 3
MOST_STATEMENTS = 300
"""Of one answer; what comes after them goes."""
_QUOTED_WORDS = 3
_LONGEST_QUOTATION = 400


@dataclass(slots=True)
class Reviewed:
    """What is left of an answer, and what it cost."""

    markdown: str = ""
    cited: list[int] = field(default_factory=list)
    dropped: int = 0
    removed: int = 0


def names_in(text: str) -> list[str]:
    """The files, commits and addresses that an answer names."""
    plain = _MARKS.sub("", text)
    urls = [url.rstrip(".,;:!?*_") for url in _URL.findall(plain)]
    rest = _URL.sub(" ", plain)
    return list(dict.fromkeys([*urls, *_PATH.findall(rest), *_HASH.findall(rest)]))


def review(
    text: str, question: str, sources: Mapping[int, ReadSource], unknown: frozenset[str] = frozenset()
) -> Reviewed:
    """An answer with only what its sources support; `unknown` are names of things that are not there."""
    return _Review(question, sources, unknown).of(list(blocks(text)))


class _Review:
    def __init__(self, question: str, sources: Mapping[int, ReadSource], unknown: frozenset[str]) -> None:
        self._question = question
        self._sources = sources
        self._unknown = unknown
        self._support = Support(sources)
        self._asked = frozenset(query_words(question))
        self._judged = 0
        self._result = Reviewed()

    def of(self, found: Sequence[Block]) -> Reviewed:
        kept = [(block, self._said(found, number)) for number, block in enumerate(found)]
        kept = [(block, self._titled(kept, number)) for number, (block, _) in enumerate(kept)]
        kept = [(block, self._beside_code(kept, number)) for number, (block, _) in enumerate(kept)]
        result = self._result
        result.markdown = re.sub(r"\n{3,}", "\n\n", "\n".join(_whole(kept))).strip()
        result.cited = sorted(number for number in cited_in(result.markdown) if number in self._sources)
        if not result.cited:
            result.markdown = ""
        return result

    def _said(self, found: Sequence[Block], number: int) -> str:
        block = found[number]
        if block.kind not in ("paragraph", "item", "row") or _heads_table(found, number) or _is_marks(block):
            return block.text
        parts = [block.text] if block.kind == "row" else sentences(block.text)
        # Whoever writes without end does not keep a reader's processor busy without end.
        room = max(0, MOST_STATEMENTS - self._judged)
        self._judged += len(parts)
        kept = [said for part in parts[:room] if (said := self._sentence(part, is_row=block.kind == "row"))]
        self._result.removed += len(parts) - len(kept)
        return block.lead + " ".join(kept) if kept else ""

    def _sentence(self, text: str, *, is_row: bool) -> str:
        """The sentence with the citations that hold; a quotation of its source, or nothing, where it does not hold."""
        parts = parts_of(text)
        cited = list(dict.fromkeys(number for part in parts for number, _ in part.citations))
        if not cited:
            return text if self._is_no_claim(text) and not is_row else ""
        held: dict[int, bool] = {}
        holds = not any(name in self._unknown for name in names_in(text))
        for part in parts:
            numbers = self._holding(part, cited, begins=part is parts[0])
            holds = holds and bool(numbers)
            held |= {number: held.get(number, False) or number in numbers for number, _ in part.citations}
        if not holds:
            quotation = "" if is_row else self._quotation(parts)
            self._result.dropped += 0 if quotation else max(1, sum(not kept for kept in held.values()))
            self._result.removed += 1 if quotation else 0
            return quotation
        self._result.dropped += sum(not kept for kept in held.values())
        return marked(text, held)

    def _holding(self, part: Part, cited: Sequence[int], *, begins: bool) -> list[int]:
        """Which citations of a stretch hold; for one without any, those of the sentence, if they bear it out."""
        own = [number for number, quote in part.citations if self._stands(number, quote)]
        if part.citations and not own:
            return []
        numbers = own or [number for number in cited if number in self._sources]
        if not words(_MARKS.sub("", part.text)):
            return numbers
        claim = part.text if begins else part.text.lstrip(" ,;:.")
        spans = [span for span in _SPAN.findall(claim) if len(span.split()) >= _QUOTED_WORDS]
        if not all(any(self._sources[number].has(span) for number in numbers) for span in spans):
            return []
        alone = [number for number in numbers if not self._support.missing(claim, [number])]
        if alone:
            return alone
        return [] if len(numbers) < 2 or self._support.missing(claim, numbers) else numbers

    def _stands(self, number: int, quote: str) -> bool:
        source = self._sources.get(number)
        return source is not None and (not quote or source.has(quote))

    def _quotation(self, parts: Sequence[Part]) -> str:
        """The words that the model copied from a source, in place of what it made of them."""
        for part in parts:
            for number, quote in part.citations:
                if len(quote.split()) >= _QUOTED_WORDS and self._stands(number, quote):
                    whole = self._support.passage(quote, number)
                    return quoted(whole if len(whole) <= _LONGEST_QUOTATION else quote, number)
        return ""

    def _is_no_claim(self, text: str) -> bool:
        """Words that lead on, or that say what was not found."""
        if len(text) <= _LONGEST_GAP and _GAP.search(text) and not _TURN.search(text):
            return self._is_gap(text)
        if not text.rstrip("*_ ").endswith(":") or re.search(r"\d", text):
            return False
        asks = _ASKING.match(text)
        return set(words(text)) <= (_NEUTRAL | PLAIN | self._asked if asks else _NEUTRAL | PLAIN)

    def _is_gap(self, text: str) -> bool:
        """Whether words about what was not found bring nothing in: no name, no number, nothing that is there."""
        told = _OBJECT.search(text)
        if told is None:
            return True
        subject = told[1]
        known = self._asked.union(*(words(f"{each.title} {each.text}") for each in self._sources.values()))
        strange = [name for name in _NAMED.findall(subject) if not set(words(name)) <= known]
        if strange or re.search(r"\d", subject) or re.match(r"\s*that\b", subject, re.I):
            return False
        return bool(re.search(rf"\b(?:{_ASKS})\b", subject, re.I)) or not self._support.denied(subject)

    def _titled(self, kept: Sequence[tuple[Block, str]], number: int) -> str:
        """A heading, or the head of a table: words of the question, or what the sources below it say."""
        block, said = kept[number]
        head = _heads_table([each for each, _ in kept], number)
        if block.kind != "heading" and not head:
            return said
        text = _MARKS.sub("", CITATION.sub("", said)).strip()
        bare = text.strip("#*|: ").replace("|", ", ")
        plain = set(words(bare)) <= _NEUTRAL | PLAIN | self._asked
        if plain and not ReadText(bare).negated and not re.search(r"\d", bare):
            return text
        below = _below(kept, number)
        if below and not self._support.missing(bare, below):
            return text
        if _has_body(block, kept[number + 1 :]):
            self._result.removed += 1
        return ""

    def _beside_code(self, kept: Sequence[tuple[Block, str]], number: int) -> str:
        """Code stays where every line of it stands in a source that is cited beside it, and so do those citations."""
        block, said = kept[number]
        if block.kind == "code":
            if self._code_of(block, [*_cited_beside(kept, number, -1), *_cited_beside(kept, number, 1)]):
                return said
            self._result.removed += 1
            return ""
        if not _is_marks(block):
            return said
        code = next((each for each, _ in reversed(kept[:number]) if each.kind != "blank"), None)
        numbers = cited_in(block.text)
        hold = self._code_of(code, numbers) if code is not None and code.kind == "code" else []
        self._result.dropped += len(numbers) - len(hold)
        return "".join(f"[{each}]" for each in hold)

    def _code_of(self, block: Block, numbers: Sequence[int]) -> list[int]:
        lines = [line for line in block.text.split("\n")[1:-1] if sum(map(str.isalnum, line)) >= _LEAST_CODE]
        known = [number for number in dict.fromkeys(numbers) if number in self._sources]
        return [number for number in known if lines and all(self._sources[number].has(line) for line in lines)]


def _is_marks(block: Block) -> bool:
    return block.kind == "paragraph" and bool(cited_in(block.text)) and not words(CITATION.sub("", block.text))


def _cited_beside(kept: Sequence[tuple[Block, str]], number: int, step: int) -> list[int]:
    """What the nearest block before or behind cites."""
    at = number + step
    while 0 <= at < len(kept):
        block, said = kept[at]
        if block.kind != "blank":
            return [] if block.kind in ("code", "heading") else cited_in(said)
        at += step
    return []


def _below(kept: Sequence[tuple[Block, str]], number: int) -> list[int]:
    """What is cited under a heading, or in the rows of a table."""
    found: list[int] = []
    heading = kept[number][0]
    for block, said in kept[number + 1 :]:
        if block.kind == "heading" and _level(block) <= _level(heading):
            break
        found += cited_in(said)
    return list(dict.fromkeys(found))


def _heads_table(found: Sequence[Block], number: int) -> bool:
    """Whether a row names the columns."""
    below = found[number + 1 : number + 2]
    return found[number].kind == "row" and bool(below) and below[0].kind == "rule" and "|" in below[0].text


def _whole(kept: Sequence[tuple[Block, str]]) -> Iterator[str]:
    """The lines that stay: no heading with nothing under it, no table without rows, no lead-in that leads nowhere."""
    found = [block for block, _ in kept]
    for number, (block, said) in enumerate(kept):
        rest = kept[number + 1 :]
        is_head = _heads_table(found, number)
        if block.kind == "blank":
            yield ""
        elif not said:
            continue
        elif block.kind == "heading":
            if _has_body(block, rest):
                yield said
        elif is_head or block.kind == "rule":
            if "|" in said and _has_rows(rest[1:] if is_head else rest):
                yield said
        elif said.rstrip().endswith(":") and not _MARKS.search(said) and not _leads_on(rest):
            continue
        else:
            yield said


def _has_body(heading: Block, rest: Sequence[tuple[Block, str]]) -> bool:
    for block, said in rest:
        if block.kind == "heading":
            if _level(block) <= _level(heading):
                return False
        elif said and block.kind not in ("rule", "blank"):
            return True
    return False


def _level(heading: Block) -> int:
    """How deep a heading is; a line in bold is the deepest."""
    return len(heading.text) - len(heading.text.lstrip("#")) or 7


def _has_rows(rest: Sequence[tuple[Block, str]]) -> bool:
    for block, said in rest:
        if block.kind != "row":
            return False
        if said:
            return True
    return False


def _leads_on(rest: Sequence[tuple[Block, str]]) -> bool:
    for block, said in rest:
        if said and block.kind != "blank":
            return block.kind in ("item", "row", "code") or bool(block.lead)
        if not said and block.kind == "heading":
            return False
    return False
