"""Owns the last look at an answer: a citation that does not hold goes, and so does what is left without any."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.engines.llm.citations import CitationCheck, ReadSource
from holdfast.engines.search.text.analyser import query_words, words
from holdfast.features.ask.answering.markdown import Block, blocks, cited_in, sentences

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
    "above additional also answer aspect based below brief change code commit context conclusion detail discuss "
    "document evidence example explain file find finding first follow following found from further given here history "
    "in key line list main mention note number overall overview part point question reason relate relevant repository "
    "section second see short show source step summary summarize tell then third two three way"
)
_NEUTRAL = frozenset(words(_PLAIN_WORDS))
_NUMBER = re.compile(r"(?<![\w.])(?:\d{1,3}(?:,\d{3})+|\d{2,})(?!\w)")
_DIGITS = re.compile(r"\d[\d_,]*")
_SPAN = re.compile(r"[\"“„«]([^\"“”„«»]{3,400})[\"”“»]")
_MARKS = re.compile(r"\s*\[\d+(?:\s*,\s*\d+)*\]")
_LEAST_CODE = 3
_LEAST_TAIL = 3


@dataclass(slots=True)
class Reviewed:
    """What is left of an answer, and what it cost."""

    markdown: str = ""
    cited: list[int] = field(default_factory=list)
    dropped: int = 0
    removed: int = 0


@dataclass(slots=True)
class _Sentence:
    text: str
    cited: list[int]
    is_wrong: bool
    """Whether a citation of it was dropped, or it names what is not there."""


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
        self._words: dict[int, frozenset[str]] = {}
        self._unknown = unknown
        self._check = CitationCheck(sources)
        self._probe = CitationCheck(sources)
        self._allowed = _NEUTRAL | frozenset(query_words(question))
        self._result = Reviewed()

    def of(self, found: Sequence[Block]) -> Reviewed:
        looked = [[] if _heads_table(found, number) else self._sentences(block) for number, block in enumerate(found)]
        kept: list[tuple[Block, str]] = []
        for number, block in enumerate(found):
            if block.kind == "code":
                said = self._code(block)
            elif block.kind in ("heading", "blank", "rule") or _heads_table(found, number):
                said = self._checked(block.text)
            else:
                below = _numbers(looked[number + 1 :], found[number + 1 :])
                said = self._said(block, looked[number], below)
            kept.append((block, said))
        lines = list(_whole(kept))
        result = self._result
        result.markdown = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
        result.cited = sorted(number for number in cited_in(result.markdown) if number in self._sources)
        if not result.cited:
            result.markdown = ""
        return result

    def _sentences(self, block: Block) -> list[_Sentence]:
        if block.kind not in ("paragraph", "item", "row"):
            return []
        parts = [block.text] if block.kind == "row" else sentences(block.text)
        return [self._sentence(part) for part in parts]

    def _sentence(self, text: str) -> _Sentence:
        before = self._check.dropped
        checked = self._checked(text)
        cited, went = cited_in(checked), self._check.dropped > before
        names_nothing = any(name in self._unknown for name in names_in(text))
        if names_nothing or (cited and not self._bears_out(checked, cited)):
            # Whatever the source says, it does not say this.
            self._result.dropped += len(cited) or (0 if went else 1)
            return _Sentence(_MARKS.sub("", checked), [], True)
        return _Sentence(checked, cited, went)

    def _bears_out(self, text: str, cited: Sequence[int]) -> bool:
        """Whether the sources of a sentence have its numbers, and what it says behind its last citation."""
        sources = [self._sources[number] for number in cited]
        said = set(_numbers_in(" ".join([self._question, *(source.text for source in sources)])))
        if any(number.replace(",", "") not in said for number in _NUMBER.findall(_MARKS.sub("", text))):
            return False
        tail = _MARKS.split(text)[-1]
        wanted = set(query_words(tail)) if words(tail) else set()
        quoted = [span for span in _SPAN.findall(tail) if len(span.split()) > 2]
        if not all(any(source.has(span) for source in sources) for span in quoted):
            return False
        known = set[str]().union(*(self._words_of(source) for source in sources))
        return len(wanted) < _LEAST_TAIL or len(wanted & known) * 3 >= len(wanted)

    def _words_of(self, source: ReadSource) -> frozenset[str]:
        if source.number not in self._words:
            self._words[source.number] = frozenset(words(f"{source.title} {source.text}"))
        return self._words[source.number]

    def _checked(self, text: str) -> str:
        before = self._check.dropped
        checked = self._check.feed(text) + self._check.end()
        self._check.feed("\n")
        self._check.end()
        self._result.dropped += self._check.dropped - before
        return checked

    def _said(self, block: Block, looked: Sequence[_Sentence], below: Sequence[int]) -> str:
        near = list(dict.fromkeys(number for sentence in looked for number in sentence.cited))
        if block.kind == "row":
            return self._row(looked[0])
        kept = []
        for sentence in looked:
            said = self._supported(sentence, near or below)
            if said:
                kept.append(said)
            else:
                self._result.removed += 1
        return block.lead + " ".join(kept) if kept else ""

    def _row(self, sentence: _Sentence) -> str:
        if sentence.cited:
            return sentence.text
        self._result.removed += 1
        return ""

    def _supported(self, sentence: _Sentence, near: Sequence[int]) -> str:
        """The sentence, with the citation of its neighbour where that holds for it as well; else nothing."""
        if sentence.cited:
            return sentence.text
        if not sentence.is_wrong:
            for number in near:
                if self._holds(sentence.text, number):
                    return _with(sentence.text, number)
            if self._is_no_claim(sentence.text):
                return sentence.text
        return ""

    def _holds(self, text: str, number: int) -> bool:
        before = self._probe.dropped
        self._probe.feed(f"{text.rstrip('.!?: ')} [{number}]\n")
        self._probe.end()
        return self._probe.dropped == before and len(query_words(text)) > 1

    def _is_no_claim(self, text: str) -> bool:
        """Words that lead on, or that say what was not found."""
        if len(text) <= _LONGEST_GAP and _GAP.search(text) and not _TURN.search(text):
            return True
        return text.rstrip("*_ ").endswith(":") and not re.search(r"\d", text) and set(words(text)) <= self._allowed

    def _code(self, block: Block) -> str:
        """Code stays where every line of it stands in one of the sources, which is then cited."""
        lines = block.text.split("\n")[1:-1]
        wanted = [line for line in lines if sum(map(str.isalnum, line)) >= _LEAST_CODE]
        for number, source in self._sources.items():
            if wanted and all(source.has(line) for line in wanted):
                return f"{block.text}\n\n[{number}]"
        self._result.removed += 1
        return ""


def _numbers_in(text: str) -> list[str]:
    return [digits.replace(",", "").replace("_", "") for digits in _DIGITS.findall(text)] + _NUMBER.findall(text)


def _numbers(looked: Sequence[Sequence[_Sentence]], found: Sequence[Block]) -> list[int]:
    """What the list, table or code below a sentence cites."""
    numbers: list[int] = []
    for sentence_list, block in zip(looked, found, strict=True):
        if block.kind == "heading" or (block.kind == "paragraph" and not block.lead):
            break
        numbers += [number for sentence in sentence_list for number in sentence.cited]
    return list(dict.fromkeys(numbers))


def _heads_table(found: Sequence[Block], number: int) -> bool:
    """Whether a row names the columns."""
    below = found[number + 1 : number + 2]
    return found[number].kind == "row" and bool(below) and below[0].kind == "rule" and "|" in below[0].text


def _with(text: str, number: int) -> str:
    bare = text.rstrip()
    return f"{bare[:-1]} [{number}]{bare[-1]}" if bare.endswith((":", ".", "!", "?")) else f"{bare} [{number}]"


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
