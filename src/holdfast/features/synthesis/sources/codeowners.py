"""Owns CODEOWNERS: which rule speaks for a path, by the rules of GitHub and, with sections, of GitLab."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

PLACES = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
"""Where it may be; the first that is there counts."""

_SECTION = re.compile(r"\^?\[([^\]]+)\](?:\[\d+\])?\s*(.*)")
_WORD = re.compile(r"(?:\\.|[^\s\\])+")


@dataclass(frozen=True, slots=True)
class Rule:
    """One line: a pattern and whom it names; nobody where it takes ownership away."""

    pattern: str
    owners: tuple[str, ...]
    line: int
    section: str = ""


@dataclass(frozen=True, slots=True)
class CodeOwners:
    """The rules of a file, in its order."""

    path: str
    rules: tuple[Rule, ...] = field(default=())

    def rules_for(self, path: str) -> tuple[Rule, ...]:
        """The rule that speaks for a path: of each section the last that matches."""
        sections = dict.fromkeys(rule.section for rule in self.rules)
        found: dict[str, Rule] = {}
        for rule in reversed(self.rules):
            if rule.section not in found and matches(rule.pattern, path):
                found[rule.section] = rule
                if len(found) == len(sections):
                    break
        return tuple(found[section] for section in sections if section in found)


def parse_code_owners(path: str, lines: Sequence[str]) -> CodeOwners:
    """The rules that a file has; what is not a rule is passed over."""
    rules: list[Rule] = []
    section, by_default = "", ()
    for number, line in enumerate(lines, 1):
        text = _without_comment(line)
        if not text:
            continue
        head = _SECTION.fullmatch(text)
        if head is not None:
            section, by_default = head[1].strip().lower(), tuple(head[2].split())
            continue
        words = _WORD.findall(text)
        pattern, owners = words[0], tuple(words[1:])
        if not pattern.startswith("!"):
            rules.append(Rule(pattern, owners or by_default, number, section))
    return CodeOwners(path, tuple(rules))


def matches(pattern: str, path: str) -> bool:
    """Whether a pattern speaks for a file. The time is bounded by both lengths: the file is anybody's."""
    return _understood(pattern).speaks_for(path.split("/"))


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A pattern in segments; each letter with whether it stands for itself, None for `**`."""

    segments: tuple[tuple[tuple[str, bool], ...] | None, ...]
    anchored: bool
    below: int
    """How much has to lie below what the segments name: 1 at least one more name, 0 anything, -1 nothing."""

    def speaks_for(self, names: Sequence[str]) -> bool:
        end = len(self.segments)
        waiting: set[int] = set()
        for number, name in enumerate(names):
            if number == 0 or not self.anchored:
                waiting.add(0)
            waiting = self._after(self._with_nothing_between(waiting), name)
            left = len(names) - number - 1
            if end in waiting and (left >= self.below if self.below >= 0 else left == 0):
                return True
            waiting.discard(end)
        return False

    def _with_nothing_between(self, waiting: set[int]) -> set[int]:
        """`**` within a path may stand for no directory at all."""
        found = set(waiting)
        for at in range(len(self.segments) - 1):
            if at in found and self.segments[at] is None:
                found.add(at + 1)
        return found

    def _after(self, waiting: set[int], name: str) -> set[int]:
        found: set[int] = set()
        for at in waiting:
            segment = self.segments[at]
            if segment is None:
                found |= {at, at + 1} if at == len(self.segments) - 1 else {at}
            elif _fits(segment, name):
                found.add(at + 1)
        return found


@lru_cache(maxsize=4096)
def _understood(pattern: str) -> _Pattern:
    bare = pattern.strip("/")
    parts = [part for part in bare.split("/") if part] or ["**"]
    anchored = pattern.startswith("/") or "/" in bare
    # `docs/*` names the files in docs; what lies deeper is not meant. `docs/**` and `*` reach all depths.
    shallow = parts[-1] == "*" and anchored
    below = 1 if pattern.endswith("/") and bare else -1 if shallow else 0
    return _Pattern(tuple(None if part == "**" else _letters(part) for part in parts), anchored, below)


def _letters(part: str) -> tuple[tuple[str, bool], ...]:
    found: list[tuple[str, bool]] = []
    escaped = False
    for letter in part:
        if letter == "\\" and not escaped:
            escaped = True
            continue
        found.append((letter, escaped or letter not in "*?"))
        escaped = False
    return tuple(found)


def _fits(segment: tuple[tuple[str, bool], ...], name: str) -> bool:
    """A name against letters, `?` and `*`: only the last `*` is ever reconsidered."""
    at = number = 0
    star, resumed = -1, 0
    while number < len(name):
        letter, literal = segment[at] if at < len(segment) else ("", True)
        if letter == "*" and not literal:
            star, resumed = at, number
            at += 1
        elif letter and ((literal and letter == name[number]) or (not literal and letter == "?")):
            at += 1
            number += 1
        elif star >= 0:
            resumed += 1
            at, number = star + 1, resumed
        else:
            return False
    return all(letter == "*" and not literal for letter, literal in segment[at:])


def _without_comment(line: str) -> str:
    """The line up to a `#` that begins a word; an escaped one belongs to the pattern."""
    found = re.search(r"(?:^|(?<=\s))#", line)
    return (line[: found.start()] if found else line).strip()
