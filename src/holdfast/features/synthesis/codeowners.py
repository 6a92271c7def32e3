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
        found: dict[str, Rule] = {}
        for rule in self.rules:
            if matches(rule.pattern, path):
                found[rule.section] = rule
        return tuple(found.values())

    def owners_of(self, path: str) -> tuple[str, ...]:
        """Who owns a path, each once."""
        return tuple(dict.fromkeys(owner for rule in self.rules_for(path) for owner in rule.owners))


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
    """Whether a pattern speaks for a file."""
    return _compiled(pattern).fullmatch(path) is not None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> "re.Pattern[str]":
    bare = pattern.removeprefix("/").removesuffix("/")
    anchored = pattern.startswith("/") or "/" in bare
    parts = [part for part in bare.split("/") if part]
    if not parts:
        return re.compile(r"(?s:.*)" if pattern.strip("/") == "" and pattern else r"(?!)")
    # `docs/*` names the files in docs; what lies deeper is not meant. `docs/**` and `*` reach all depths.
    below = "/.+" if pattern.endswith("/") else "(?:/.+)?"
    if parts[-1] == "*" and anchored and not pattern.endswith("/"):
        below = ""
    start = "" if anchored else "(?:.*/)?"
    return re.compile(f"(?s:{start}{_regex(parts)}{below})")


def _regex(parts: Sequence[str]) -> str:
    pieces: list[str] = []
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            pieces.append(".+" if last else "(?:.+/)?")
        else:
            pieces.append(_segment(part) + ("" if last else "/"))
    return "".join(pieces)


def _segment(part: str) -> str:
    found: list[str] = []
    escaped = False
    for letter in part:
        if escaped:
            found.append(re.escape(letter))
            escaped = False
        elif letter == "\\":
            escaped = True
        elif letter == "*":
            found.append("[^/]*")
        elif letter == "?":
            found.append("[^/]")
        else:
            found.append(re.escape(letter))
    return "".join(found)


def _without_comment(line: str) -> str:
    """The line up to a `#` that begins a word; an escaped one belongs to the pattern."""
    found = re.search(r"(?:^|(?<=\s))#", line)
    return (line[: found.start()] if found else line).strip()
