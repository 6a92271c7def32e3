"""Owns which sources answer an aspect, and which of them best: by its kind, its topic and what a source is."""

import re
from collections.abc import Sequence

from holdfast.features.ask.answering.points import Point, points
from holdfast.features.ask.question.aspects import Aspect, Kind, is_definition
from holdfast.features.ask.question.wanted import has_value, is_left_out, is_of_another, is_of_contents, wants_value
from holdfast.features.ask.sources import Evidence
from holdfast.features.repositories.model import COMMIT, FILE, TAG
from holdfast.registry.precedence import KnowledgeKind, in_order, is_about_tests, place_of_path

REASON = re.compile(
    r"\b(?:because|instead of|rather than|so that|in order to|due to|reason|since|otherwise|to avoid|therefore|"
    r"decided|chose|prefer)\b",
    re.I,
)
_MENDED = re.compile(r"\b(?:fix\w*|revert\w*|regress\w*|bugs?|broke\w*|crash\w*|hotfix|repair\w*|fail\w*)\b", re.I)
_DECISION = re.compile(r"(?:^|/)(?:adrs?|decisions?)/|(?:^|/)adr-?\d", re.I)
_NOTES = re.compile(r"(?:^|/)(?:changelog|changes|history|news|release[-_]?notes)[^/]*$", re.I)
_REMARKS = ("//", "/*", "* @")
"""How a line of an example begins that a document has: it says nothing of a change."""
_IMPLEMENTED = re.compile(r"\b(?:implement\w*|internal\w*|under the hood|source code)\b", re.I)
LEAST_COVERED = 0.6
LEAST_COVERED_WHY = 0.5
LEAST_COVERED_ELSE = 0.34
_LEAST_TITLE = 0.3
_MERGE = re.compile(r"Merge (?:pull request|branch|remote|PR)\b", re.I)
_MERGE_SHARE = 0.7
_BUMP = re.compile(
    r"(?:\w+\(deps[^)]*\)!?:|deps?:|bump\b|(?:update|upgrade) (?:dependency|dependencies)\b)|.*\bfrom v?\d\S* to v?\d",
    re.I,
)
"""How what a program proposes begins: it takes a newer library, and names much besides."""
_BUMPED = re.compile(r"\b(?:bump\w*|upgrad\w*|updat\w*|dependenc\w*)\b", re.I)
_BUMP_SHARE = 0.5
_OTHER_NUMBER_SHARE = 0.6
"""How much a source counts that has 2.6 where 2 is asked about."""
_NOT_MENDED_SHARE = 0.6
_DECIDED = re.compile(r"^\W*(?:decision|outcome|rationale|justification)\b", re.I | re.M)
_OUTCOME = 0.2
_BACKGROUND = re.compile(
    r"\W*(?:\d+[.)]?\s*)?(?:context|background|motivation|problem|rationale|forces|reasons?)\b", re.I
)
_ASKED_THERE = re.compile(r"\W*(?:\d+[.)]?\s*)?(?:why|rationale|motivation|reasons?)\b", re.I)
_ANSWERS_WHY = 0.25
"""How much better a section is that asks the question itself: "Why do we write files?"."""
_REQUIRES = re.compile(r"\b(?:requir\w*|needs?|needed|minimum|least|bump\w*|rais\w*|drop\w*)\b", re.I)
_NOT_REQUIRED_SHARE = 0.5
_SAYS_SO = 0.05
"""How much better a point is that says in so many words what was done."""
_RECORD = 0.2
"""How much better a record answers why that is about the very thing by its title."""
_PATH_SHARE = 0.3
"""How much a path counts that has all of the topic's words."""


def fitness(kind: Kind, evidence: Evidence) -> float:
    """How much better a source answers that kind of question than its similarity tells."""
    is_file = evidence.kind == FILE
    path = evidence.key if is_file else ""
    better = 0.3 if evidence.exact and kind in ("where", "what") else 0.0
    if is_file and place_of_path(path) == KnowledgeKind.TEST:
        better -= 0.2
    if kind == "why":
        better += 0.25 if REASON.search(evidence.prose) and (not is_file or is_document(path)) else 0.0
        better += 0.2 if _DECISION.search(path) else 0.05 if not is_file else 0.0
        better += _ANSWERS_WHY if _ASKED_THERE.match(_section(evidence)) else 0.0
    elif kind == "where":
        better += 0.15 if is_file and not is_document(path) else 0.0
    elif kind == "who":
        better += 0.3 if path.rpartition("/")[2] == "CODEOWNERS" else 0.1 if evidence.kind == COMMIT else 0.0
    elif kind == "when":
        better += 0.15 if evidence.kind in (COMMIT, TAG, "release") else 0.0
    elif kind == "version":
        better += 0.3 if evidence.version else 0.0
    elif kind == "support":
        # A page says what is so now; notes say what became so.
        better += 0.0 if not is_file else 0.2 if evidence.version else 0.25
    elif kind == "broke":
        better += 0.25 if not is_file and _MENDED.search(evidence.title) else 0.2 if evidence.version else 0.0
        better += 0.1 if evidence.kind == "issue" else 0.0
    return better


def ranked(aspect: Aspect, found: Sequence[Evidence]) -> list[Evidence]:
    """Sources that can answer, those first that answer the kind of question best; far worse ones are left out."""
    kind = aspect.kind
    if aspect.is_of_change:
        return _of_change(aspect, found)
    there = [each for each in found if each.exact or coverage(aspect, each) >= LEAST_COVERED_ELSE]
    if kind == "where" or _IMPLEMENTED.search(aspect.text):
        called = [each for each in found if each.kind == FILE and aspect.topic.overlap(each.key)]
        return _places(aspect, [*there, *(each for each in called if each not in there)])
    if kind == "what" and not is_definition(aspect) and any(each.line for each in there):
        # "What does parse_location do": the definition tells best.
        return _by_score([(each.similarity + fitness(kind, each), each) for each in there])
    listed = in_order(aspect.text, there, _place, lambda each: each.similarity + _aboutness(aspect, each) / 4)
    # A page that has most of what is asked for explains it, however much code is like the question.
    wants = wants_value(aspect)
    return sorted(listed, key=lambda each: (wants and not giving(aspect, each), not _explains(aspect, each)))


def giving(aspect: Aspect, evidence: Evidence) -> list[str]:
    """The statements of a document that give the value that is asked for."""
    if evidence.kind != FILE or not is_document(evidence.key):
        return []
    return [
        point.text
        for point in points(evidence.text)
        if has_value(point.text) and aspect.topic.coverage(f"{point.above}\n{point.text}") >= LEAST_COVERED
    ]


def _places(aspect: Aspect, found: Sequence[Evidence]) -> list[Evidence]:
    """Where something is: code whose path or text is about it, tests last."""
    scored = [
        (each.similarity + fitness("where", each) + _PATH_SHARE * aspect.topic.coverage(each.key), each)
        for each in found
    ]
    is_of_tests = is_about_tests(aspect.text)

    def order(each: Evidence) -> tuple[bool, bool]:
        is_code = each.kind == FILE and not is_document(each.key)
        return is_code and not is_of_tests and _is_test(each.key), not is_code

    # Code first, then what is written about it, and tests last.
    return sorted(_by_score(scored), key=order)


def _aboutness(aspect: Aspect, evidence: Evidence) -> float:
    """How much a source is about the topic; what a heading announces is told below it."""
    return coverage(aspect, evidence) + aspect.topic.overlap(evidence.heading.rpartition("›")[2])


def _explains(aspect: Aspect, evidence: Evidence) -> bool:
    return _place(evidence) == KnowledgeKind.WRITTEN and coverage(aspect, evidence) >= LEAST_COVERED


def _is_test(path: str) -> bool:
    return place_of_path(path) == KnowledgeKind.TEST


def _of_change(aspect: Aspect, found: Sequence[Evidence]) -> list[Evidence]:
    """What names the thing and what was done to it, and code, which only serves to say who stands behind it."""
    scored = []
    code = []
    for each in found:
        covered = covers(aspect, each)
        if covered:
            better = fitness(aspect.kind, each) + _decided(aspect, each)
            scored.append((covered + each.similarity / 2 + better, each))
        elif each.kind == FILE and not is_document(each.key):
            code += [each] if each.exact or coverage(aspect, each) >= least_covered(aspect) else []
    # What a version brought stands in its notes; its tag says that there is one.
    by_score = sorted(_by_score(scored), key=lambda each: is_of_contents(aspect) and each.kind == TAG)
    return [*by_score, *code]


def _decided(aspect: Aspect, evidence: Evidence) -> float:
    """How much better a record of a decision tells why: by its title, and where it says what was decided."""
    if aspect.kind != "why" or not is_record(evidence):
        return 0.0
    title, _, section = evidence.heading.partition("›")
    says = _DECIDED.search(evidence.text) or _DECIDED.match(section.rpartition("›")[2].strip())
    return _RECORD * aspect.topic.overlap(title) + (_OUTCOME if says else 0.0)


def _by_score(scored: Sequence[tuple[float, Evidence]]) -> list[Evidence]:
    order = sorted(range(len(scored)), key=lambda number: (-scored[number][0], number))
    return [scored[number][1] for number in order if scored[number][0] >= scored[order[0]][0] - 0.35]


def _place(evidence: Evidence) -> KnowledgeKind:
    """A page of documentation explains best; notes and commits tell what changed, which is something else."""
    if evidence.kind != FILE:
        return KnowledgeKind.CODE
    place = place_of_path(evidence.key)
    return KnowledgeKind.CODE if place == KnowledgeKind.WRITTEN and is_notes(evidence.key) else place


def coverage(aspect: Aspect, evidence: Evidence) -> float:
    """How much of what the aspect is about a source has anywhere in it."""
    return aspect.topic.coverage(
        f"{evidence.key if evidence.kind == FILE else evidence.title}\n{evidence.heading}\n{evidence.text}"
    )


def covers(aspect: Aspect, evidence: Evidence) -> float:
    """How well a source answers what is asked of a change: 0 where it is about something else."""
    if evidence.kind == FILE:
        if not is_document(evidence.key):
            return 0.0
        if aspect.kind in ("who", "when") and not evidence.version:
            return 0.0
        return max((covered for covered, _ in covering(aspect, evidence)), default=0.0)
    topic = aspect.topic
    if evidence.kind == TAG and aspect.kind == "broke" and not _MENDED.search(evidence.prose):
        return 0.0
    title, whole = topic.coverage(evidence.title), topic.coverage(f"{evidence.title}\n{evidence.prose}")
    if evidence.kind == TAG and aspect.kind in ("when", "version"):
        return whole if whole >= LEAST_COVERED else 0.0
    is_told_below = aspect.kind in ("why", "broke", "support")
    if max(title, whole) < least_covered(aspect) or title < (0.0 if is_told_below else _LEAST_TITLE):
        return 0.0
    is_done = (
        _is_lenient(aspect) or _is_done(aspect, evidence.title) or (is_told_below and _is_done_below(aspect, evidence))
    )
    # A merge says whose branch it was; what it brought is told by the commits of that branch.
    share = _MERGE_SHARE if _MERGE.match(evidence.title) else 1.0
    if _BUMP.match(evidence.title) and not _BUMPED.search(aspect.text):
        share = _BUMP_SHARE
    if not topic.is_exact(f"{evidence.title}\n{evidence.prose}"):
        share *= _OTHER_NUMBER_SHARE
    return share * (title + whole) / 2 if is_done else 0.0


def _is_done_below(aspect: Aspect, evidence: Evidence) -> bool:
    """Whether a point of a message tells it; a long message names much, and removes something else."""
    told = points(evidence.prose)
    return any(
        _is_done(aspect, each.text, each.above)
        and aspect.topic.coverage(f"{each.above}\n{each.text}") >= LEAST_COVERED_WHY
        for each in told
    )


def _is_done(aspect: Aspect, text: str, heading: str = "") -> bool:
    """Whether a text says what was done; why something was removed is told where it was deprecated."""
    return aspect.topic.is_done(text, heading) or (aspect.kind == "why" and aspect.topic.is_announced(text, heading))


def _is_lenient(aspect: Aspect) -> bool:
    """Whether what was done need not be said: a reason is given in other words, and what there is was once added."""
    action = aspect.topic.action
    return (aspect.kind == "why" and action == "add") or (aspect.kind == "support" and action in (None, "add"))


def covering(aspect: Aspect, evidence: Evidence) -> list[tuple[float, Point]]:
    """The points and paragraphs of a document that answer what is asked of a change, best first."""
    found = []
    lenient = _is_lenient(aspect) or (
        aspect.kind in ("why", "broke", "support") and aspect.topic.action in (None, "add", "fix")
    )
    for point in points(evidence.text):
        heading = f"{evidence.heading}\n{point.above}"
        if (
            point.text.startswith(_REMARKS)
            or is_left_out(aspect, point.text, heading)
            or is_of_another(aspect, point.text, heading)
        ):
            continue
        covered = aspect.topic.coverage(f"{heading}\n{point.text}")
        if covered >= least_covered(aspect) and (lenient or _is_done(aspect, point.text, heading)):
            if not aspect.topic.is_exact(f"{heading}\n{point.text}"):
                covered *= _OTHER_NUMBER_SHARE
            if aspect.kind == "version" and aspect.topic.action is None and _REQUIRES.search(aspect.text):
                covered *= 1.0 if _REQUIRES.search(f"{point.above}\n{point.text}") else _NOT_REQUIRED_SHARE
            if aspect.kind == "broke" and not _MENDED.search(f"{point.above}\n{point.text}"):
                covered *= _NOT_MENDED_SHARE
            # What says it in its own words comes before what only stands below it.
            own = aspect.topic.overlap(point.text)
            said = _SAYS_SO if aspect.topic.is_said(point.text) else 0.0
            found.append((covered + own / 100 + said, point))
    return sorted(found, key=lambda each: -each[0])


def least_covered(aspect: Aspect) -> float:
    """How much of the topic an answer must have; a reason is told in words of its own."""
    least = LEAST_COVERED_WHY if aspect.kind in ("why", "broke") else LEAST_COVERED
    # What was never removed is asked for as readily as what was, and its name is in many a removal.
    return least + 0.1 if aspect.topic.action in ("remove", "deprecate") else least


def is_document(path: str) -> bool:
    """Whether a file is written for people to read."""
    return place_of_path(path) == KnowledgeKind.WRITTEN


def is_notes(path: str) -> bool:
    """Whether a file tells what changed from version to version."""
    return _NOTES.search(path) is not None


def is_record(evidence: Evidence) -> bool:
    """Whether it is of a record of a decision."""
    return evidence.kind == FILE and _DECISION.search(evidence.key) is not None


def is_background(evidence: Evidence) -> bool:
    """Whether it is what a record decided for: its context, the problem."""
    return is_record(evidence) and _BACKGROUND.match(_section(evidence)) is not None


def _section(evidence: Evidence) -> str:
    return evidence.heading.rpartition("›")[2].strip()


SOURCE_KINDS = (
    "release notes and changelogs",
    "commits",
    "pull requests",
    "issues and discussions",
    "decision records",
    "documents",
    "code",
    "tests",
)
"""What an answer may come from, in the order in which people are told that it did not."""


def source_kind(evidence: Evidence) -> str:
    """Which of them a source is."""
    notes, commits, pulls, issues, decisions, documents, code, tests = SOURCE_KINDS
    if evidence.kind != FILE:
        of_items = {COMMIT: commits, "pull_request": pulls, "issue": issues, "discussion": issues}
        return of_items.get(evidence.kind, notes)
    if _is_test(evidence.key):
        return tests
    if not is_document(evidence.key):
        return code
    return notes if is_notes(evidence.key) else decisions if _DECISION.search(evidence.key) else documents
