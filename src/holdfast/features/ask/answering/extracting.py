"""Owns the answer without a model: the best passages of the sources under what the question asks, word for word."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from holdfast.engines.llm.citations import ReadSource
from holdfast.engines.llm.cited.markdown import inert
from holdfast.engines.llm.extractive.extracts import LONGEST_SENTENCE, QuotedPassage, quotes
from holdfast.engines.search.text.analyser import query_words, words
from holdfast.features.ask.answering.points import is_prose, paragraphs, points
from holdfast.features.ask.landmarks import LICENSE
from holdfast.features.ask.people import OWNERS
from holdfast.features.ask.question.aspects import Aspect, is_definition
from holdfast.features.ask.question.wanted import is_of_contents, wants_value
from holdfast.features.ask.ranking import (
    LEAST_COVERED,
    REASON,
    coverage,
    covering,
    giving,
    is_background,
    is_document,
    is_notes,
    least_covered,
)
from holdfast.features.ask.sources import Evidence, Ledger, file_evidence, source_of
from holdfast.features.repositories.model import COMMIT, FILE, TAG

WINDOW_LINES = 14
MOST_PASSAGES = 5
FEW_PASSAGES = 3
"""Under each aspect, where there are several."""
MOST_CODE = 3
MOST_LISTED = 8
"""Points of one passage, where all that a version brought is asked for."""
NOTHING_MORE = "Nothing that was found answers this."
NO_NOTES = "No release notes that were found name a version. The change itself:"
ONLY_CODE = "No commit, pull request, issue or document that was found tells this. The nearest code:"

_TRAILER = re.compile(r"^(?:[A-Z][\w-]+-by|Change-Id|Co-authored-by|Cc|Closes|Fixes): \S.*$", re.M)
_IS = re.compile(r"\b(?:is|are|provides?|allows?|lets?)\b")
_FENCES = re.compile(r"`{3,}")
_EXAMPLE = re.compile(r"^(`{3,})([\w+-]*)[^\n`]*\n(.*?\n)\1\s*$", re.M | re.S)
_REMARK = re.compile(r"\s*(?://|/\*|\*|#|--|;|%|<!--|\"\"\"|you may|licen[cs]ed)", re.I)
_ABOVE = re.compile(r"\s*(?://|/\*|\*|#|--|@\w)")
_LICENSED = re.compile(r"\b(?:licen[cs]e|copyright|warrant(?:y|ies))\b", re.I)
MOST_REMARKED = 16
"""Lines above a definition that are shown with it."""
MOST_POINT = 600
"""Characters of a point that is quoted whole."""


@dataclass(slots=True)
class Extract:
    """An answer of quotations, and what is behind its numbers."""

    ledger: Ledger = field(default_factory=Ledger)
    parts: list[str] = field(default_factory=list)
    dropped: int = 0

    @property
    def markdown(self) -> str:
        return "\n\n".join(self.parts)


def extract(chosen: Sequence[tuple[Aspect, Sequence[Evidence]]]) -> Extract:
    """The answer from sources that are known to be there, best first for each aspect."""
    made = Extract()
    most = MOST_PASSAGES if len(chosen) == 1 else FEW_PASSAGES
    for aspect, found in chosen:
        if len(chosen) > 1:
            made.parts.append(f"## {aspect.text[:1].upper()}{aspect.text[1:]}")
        shown = _Section(aspect, made, most).of(found)
        made.parts += shown or [NOTHING_MORE]
    return made


class _Section:
    """What is quoted under one aspect."""

    def __init__(self, aspect: Aspect, made: Extract, most: int) -> None:
        self._aspect = aspect
        self._made = made
        self._most = most
        self._said: set[str] = set()
        self._files: dict[tuple[str, str], int] = {}
        self._code_shown = 0

    def of(self, found: Sequence[Evidence]) -> list[str]:
        shown: list[tuple[Evidence, str]] = []
        fitting = self._fitting(found)
        for evidence in fitting or self._code_behind(found):
            part = self._passage(evidence)
            if part:
                shown.append((evidence, part))
            if len(shown) == self._most:
                break
        if self._aspect.kind == "when":
            shown.sort(key=lambda each: (not each[0].told_day, each[0].told_day, each[0].at or 0))
        parts: list[str] = [] if fitting or not shown else [ONLY_CODE]
        if shown and self._aspect.kind == "version" and not any(each.version for each, _ in shown):
            parts.append(NO_NOTES)
        for _, part in shown:
            # Bullets that follow each other are one list.
            if parts and part.startswith("- ") and parts[-1].startswith("- "):
                parts[-1] += f"\n{part}"
            else:
                parts.append(part)
        return parts

    def _fitting(self, found: Sequence[Evidence]) -> Sequence[Evidence]:
        """Those that can answer: code tells neither who nor when, and seldom why."""
        if not self._aspect.is_of_change:
            return found
        told = [each for each in found if each.kind != FILE or is_document(each.key)]
        if self._aspect.kind == "version":
            return [each for each in told if each.version] or [each for each in told if each.kind != FILE]
        return told

    def _code_behind(self, found: Sequence[Evidence]) -> Sequence[Evidence]:
        """Code that may tell why to whoever reads it: of what the question names, and about what it says."""
        aspect = self._aspect
        if aspect.kind not in ("why", "broke") or aspect.topic.action is not None:
            # What was done to something is nowhere in what it is now.
            return []
        return [each for each in found if each.exact and coverage(aspect, each) >= least_covered(aspect)]

    def _passage(self, evidence: Evidence) -> str:
        if evidence.kind != FILE:
            return self._quoted(evidence)
        key = (evidence.repository.id, evidence.key)
        is_code = not is_document(evidence.key) and not _is_line(evidence)
        most = self._most if is_notes(evidence.key) else 2
        if self._files.get(key, 0) >= most or (is_code and self._code_shown >= MOST_CODE):
            return ""
        if not evidence.start_line:
            number = self._cite(evidence, [evidence.text])
            return f"- {inert(evidence.text)} [{number}]" if number else ""
        part = self._code(evidence) if is_code else self._document(evidence)
        self._code_shown += is_code and bool(part)
        self._files[key] = self._files.get(key, 0) + bool(part)
        return part

    def _quoted(self, evidence: Evidence) -> str:
        """A commit or an item: its title, and the sentence in it that answers."""
        title, kind = " ".join(evidence.title.split()) or evidence.key[:7], self._aspect.kind
        more = [] if kind in ("who", "when") and evidence.kind != TAG else self._sentences(evidence)
        said = [title, *(sentence for sentence in more[:2] if sentence not in title)]
        number = self._cite(evidence, said)
        if not number:
            return ""
        who, day = inert(evidence.author), evidence.day
        quoted = ": ".join(f'"{inert(each)}"' for each in said)
        if kind == "who" and who:
            last = f", {evidence.seen[:1].lower()}{evidence.seen[1:]}" if evidence.seen else ""
            return f"- **{who}**, {day}{last}: {quoted} [{number}]"
        if kind == "when" and day:
            return f"- {day}: {quoted}{f', {who}' if who else ''} [{number}]"
        by = ", ".join(part for part in (who, day) if part)
        return f"- {quoted}{f' – {by}' if by else ''} [{number}]"

    def _document(self, evidence: Evidence) -> str:
        said = [" ".join(evidence.text.split())] if _is_line(evidence) else self._told(evidence)
        if not said:
            # Below a heading that says it all there may be nothing but an example.
            return self._example(evidence).lstrip()
        flat = " ".join(evidence.text.split())
        # In the order of the document, which reads on from one to the next.
        said.sort(key=lambda each: flat.find(each[:40]))
        lines = evidence.text.split("\n")
        begin, end = _lines_of(lines, said)
        narrow = _narrowed(evidence, lines, begin, end)
        number = self._cite(narrow, said)
        if not number:
            return ""
        release = f"**{inert(evidence.version)}**, " if evidence.version and self._aspect.is_of_change else ""
        quoted = " ".join(f'"{inert(each)}"' for each in said)
        return f"- {release}`{evidence.key}`: {quoted} [{number}]{self._example(evidence)}"

    def _told(self, evidence: Evidence) -> list[str]:
        """The points of a document that tell of a change as a whole; of another matter its best sentences."""
        if not self._aspect.is_of_change:
            return self._sentences(evidence)[:3]
        if self._aspect.kind == "why" and is_background(evidence):
            return self._background(evidence)
        told = []
        most = MOST_LISTED if is_of_contents(self._aspect) else 2
        covered = [point for _, point in covering(self._aspect, evidence)]
        # Below a heading that names the thing stands much that is not about it.
        own = [point for point in covered if self._aspect.topic.overlap(point.text)]
        covered = (covered if is_of_contents(self._aspect) else own or covered)[:most]
        chosen = [point.text for point in covered]
        if self._aspect.kind in ("why", "broke"):
            # What was done is told first, and the reason for it in the next breath or right below it.
            every = points(evidence.text)
            # The next point of the same list is about something else.
            following = [
                after.text
                for one, after in pairwise(every)
                if one.text in chosen and not (after.is_item and after.indent <= one.indent)
            ]
            reasons = [text for text in following if REASON.search(text)]
            below = [text for point in covered[:1] for text in point.below[:2]]
            chosen = list(dict.fromkeys([*chosen, *reasons, *below]))
        for text in chosen:
            tidy = text.lstrip("#>*- ")
            long = len(tidy) > MOST_POINT
            told += (
                [each.text for each in quotes(self._aspect.query, [QuotedPassage("", tidy)])[:2]] if long else [tidy]
            )
        return told

    def _background(self, evidence: Evidence) -> list[str]:
        """What a record decided for: what is about the question, what gives a reason, and what it comes down to."""
        prose = "\n".join(each for each in paragraphs(evidence.text) if is_prose(each))
        every = [each for each in _split(prose) if len(each) <= LONGEST_SENTENCE]
        about = [quote.text for quote in quotes(self._aspect.query, [QuotedPassage("", prose)])][:1]
        reasons = [each for each in every if REASON.search(each)][:1]
        return list(dict.fromkeys([*reasons, *every[-2:], *about]))[:3]

    def _example(self, evidence: Evidence) -> str:
        """The first example in a page that tells how something is done."""
        found = _EXAMPLE.search(evidence.text) if self._aspect.kind == "how" else None
        if found is None or found[3].count("\n") > WINDOW_LINES or found[3] in self._said:
            return ""
        self._said.add(found[3])
        begin = evidence.text[: found.start(3)].count("\n")
        narrow = _narrowed(evidence, evidence.text.split("\n"), begin, begin + found[3].count("\n"))
        number = self._made.ledger.add(narrow)
        place = f"`{narrow.key}` lines {narrow.start_line}–{narrow.end_line} [{number}]:"
        return f"\n\n{place}\n\n{found[1]}{found[2]}\n{found[3]}{found[1]}" if number else ""

    def _code(self, evidence: Evidence) -> str:
        lines = evidence.text.split("\n")
        named = evidence.line - evidence.start_line
        if evidence.line and 0 <= named < len(lines):
            # What is written above a definition says what it does.
            begin = _remark_begin(lines, named) if self._aspect.kind in ("what", "how") else named
            end = _definition_end(lines, named)
        else:
            begin = _best_window(lines, self._aspect.query)
            end = min(len(lines), begin + WINDOW_LINES)
        narrow = _narrowed(evidence, lines, begin, end)
        number = self._cite(narrow, [narrow.text])
        if not number:
            return ""
        fence = "`" * max(3, *(len(run) + 1 for run in [*_FENCES.findall(narrow.text), ""]))
        place = f"`{narrow.key}` lines {narrow.start_line}–{narrow.end_line} [{number}]:"
        return f"{place}\n\n{fence}{_language(narrow.key)}\n{narrow.text}\n{fence}"

    def _sentences(self, evidence: Evidence) -> list[str]:
        """The sentences that are about the aspect; for a why, those that give a reason first."""
        lines = list(paragraphs(_TRAILER.sub("", evidence.prose)))
        if evidence.kind == TAG:
            return _split("\n".join(lines))[:1]
        if evidence.kind != FILE and lines and lines[0] == " ".join(evidence.title.split()):
            lines = lines[1:]
        query = self._aspect.query
        if wants_value(self._aspect):
            given = [tidy for each in giving(self._aspect, evidence) if len(tidy := each.lstrip("#>*- ")) <= MOST_POINT]
            if given:
                return given[:2]
        if is_definition(self._aspect):
            told = [each for each in _split("\n".join(lines)) if self._defines(each)]
            if told:
                return told
        if self._aspect.kind == "why":
            reasons = [
                each for each in _split("\n".join(lines)) if REASON.search(each) and len(each) <= LONGEST_SENTENCE
            ]
            alike = [quote.text for quote in quotes(query, [QuotedPassage("", each) for each in reasons])]
            # A commit has one reason, whatever words it is given in.
            chosen = alike or (reasons if evidence.kind == COMMIT else [])
            if chosen:
                return chosen
        written = [line for line in lines if is_prose(line)] if evidence.kind == FILE else lines
        found = [quote.text for quote in quotes(query, [QuotedPassage("", "\n".join(written or lines))])]
        if not found and self._aspect.topic.coverage(evidence.heading.rpartition("›")[2]) >= LEAST_COVERED:
            # A section that is called so tells of it in other words.
            return [each for each in _split("\n".join(written)) if len(each) <= LONGEST_SENTENCE][:2]
        return found

    def _defines(self, sentence: str) -> bool:
        """Whether a sentence begins with the thing and says what it is."""
        verb = _IS.search(sentence[:90])
        if verb is None or len(sentence) > LONGEST_SENTENCE:
            return False
        return self._aspect.topic.coverage(sentence[: verb.start()]) >= least_covered(self._aspect)

    def _cite(self, evidence: Evidence, said: Sequence[str]) -> int:
        """The source's number; 0, and counted, where it does not say this, and 0 where it was said already."""
        # The same line in the notes of two versions, or of two packages, tells of two releases.
        keys = [f"{evidence.key} {evidence.version} {each}" if evidence.version else each for each in said]
        if self._said.issuperset(keys) or not any(each.strip() for each in said):
            return 0
        source = ReadSource(0, "", "", evidence.text)
        if not all(source.has(each) or source_of(0, evidence).has(each) for each in said):
            self._made.dropped += 1
            return 0
        self._said.update(keys)
        return self._made.ledger.add(evidence)


def _is_line(evidence: Evidence) -> bool:
    """Whether it is a line that was looked up for itself: a rule of owners, the name of a license."""
    name = evidence.key.rpartition("/")[2]
    return evidence.start_line == evidence.end_line and (name == OWNERS or LICENSE.fullmatch(name) is not None)


def _split(text: str) -> list[str]:
    found = re.split(r"(?<=[.!?])\s+(?=\S)|\n+", text)
    return [tidy for part in found if len(tidy := " ".join(part.split()).lstrip("#>*- ")) >= 3]


def _best_window(lines: Sequence[str], query: str) -> int:
    """Where the lines begin that say most of the query."""
    if len(lines) <= WINDOW_LINES:
        return 0
    wanted = set(query_words(query))
    after = _license_end(lines)
    matched = [wanted.intersection(words(line)) for line in lines]
    last = len(lines) - WINDOW_LINES
    best, begin = 0, min(after, last)
    for start in range(begin, last + 1):
        found = len(set[str]().union(*matched[start : start + WINDOW_LINES]))
        # A window that begins with a match shows what belongs to it.
        score = 2 * found + bool(matched[start])
        if score > best:
            best, begin = score, start
    return begin


def _license_end(lines: Sequence[str]) -> int:
    """Where a file begins to say something of its own: below the license at its head."""
    end = next((number for number, line in enumerate(lines) if not _is_remark(line)), len(lines))
    return end if _LICENSED.search("\n".join(lines[:end])) else 0


def _is_remark(line: str) -> bool:
    return not line.strip() or _REMARK.match(line) is not None


def _remark_begin(lines: Sequence[str], named: int) -> int:
    """Where the remark right above a definition begins, or the definition itself."""
    begin = named
    while begin > 0 and named - begin < MOST_REMARKED and _ABOVE.match(lines[begin - 1]):
        begin -= 1
    return begin


def _definition_end(lines: Sequence[str], begin: int) -> int:
    """Where a definition ends, by its indentation, or where enough of it is shown."""
    indent = _indent(lines[begin])
    for number in range(begin + 1, min(len(lines), begin + WINDOW_LINES)):
        line = lines[number].strip()
        if line and _indent(lines[number]) <= indent and line[0] not in ")]}":
            # A line alone at the outer level, such as a brace, belongs to what is above it.
            return number if number > begin + 1 else min(len(lines), begin + WINDOW_LINES)
    return min(len(lines), begin + WINDOW_LINES)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _lines_of(lines: Sequence[str], said: Sequence[str]) -> tuple[int, int]:
    """The first and last line (exclusive) that hold the sentences; all where they can't be told."""
    wanted = [set(words(each)) for each in said]
    hits = [
        number
        for number, line in enumerate(lines)
        if (found := set(words(line))) and any(len(found & each) * 10 >= len(found) * 9 for each in wanted)
    ]
    if not hits or not _holds(lines[hits[0] : hits[-1] + 1], said):
        return 0, len(lines)
    return hits[0], hits[-1] + 1


def _holds(lines: Sequence[str], said: Sequence[str]) -> bool:
    source = ReadSource(0, "", "", "\n".join(lines))
    return all(source.has(each) for each in said)


def _narrowed(evidence: Evidence, lines: Sequence[str], begin: int, end: int) -> Evidence:
    while end - begin > 1 and not lines[end - 1].strip():
        end -= 1
    while end - begin > 1 and not lines[begin].strip():
        begin += 1
    text, first = "\n".join(lines[begin:end]), evidence.start_line
    narrow = file_evidence(evidence.repository, evidence.key, text, first + begin, first + end - 1, is_read=True)
    return replace(narrow, similarity=evidence.similarity, exact=evidence.exact, heading=evidence.heading)


def _language(path: str) -> str:
    suffix = path.rpartition(".")[2].lower() if "." in path.rpartition("/")[2] else ""
    known = {
        "py": "python",
        "js": "javascript",
        "ts": "typescript",
        "rs": "rust",
        "rb": "ruby",
        "sh": "sh",
        "yml": "yaml",
    }
    return known.get(suffix, suffix if suffix.isalnum() else "")
