"""Measures how many of the commits that synthesis takes for decisions are ones, on commits labelled for it.

decisions.json has, for each outside repository, the hashes of commits that chose something (excluded an alternative, or
changed a dependency, an interface or a default) and of some that did not, though words in them look like it. The rules
were adjusted on seven of the repositories; three were held out. Repositories are given as clones, which may be bare:

    python -m bench.decisions --clones DIRECTORY [--missed]     (with DIRECTORY/encode/httpx, …/gin-gonic/gin, …)
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.report import Figure, finish, options
from holdfast.features.synthesis.sources import cues
from holdfast.features.synthesis.sources.touching import touched

TARGET = 0.8
MOST = 45
"""How many of the most telling commits of a repository were labelled."""
_RECORD, _FIELD, _FILES = "\x1e", "\x1f", "\x1d"


class Labelled(NamedTuple):
    """What people say of a repository's commits, by the first seven digits of their hashes."""

    decisions: frozenset[str]
    others: frozenset[str]
    held_out: bool


LABELS = {
    name: Labelled(frozenset(row["decisions"].split()), frozenset(row["others"].split()), row["held_out"])
    for name, row in json.loads((Path(__file__).parent / "decisions.json").read_text()).items()
}


class Found(NamedTuple):
    """A commit that the rules take for a decision."""

    score: float
    commit: str
    title: str


def commits(clone: Path) -> Iterator[tuple[str, str, str, str, list[str]]]:
    """Hash, author, subject, body and paths of every commit that is no merge."""
    format = f"--format={_RECORD}%H{_FIELD}%an{_FIELD}%s{_FIELD}%b{_FILES}"
    command = ["git", "-C", str(clone), "log", "--no-merges", "--name-only", format]
    told = subprocess.run(command, capture_output=True, check=True).stdout.decode(errors="replace")
    for record in told.split(_RECORD)[1:]:
        head, _, files = record.partition(_FILES)
        sha, author, subject, body = head.split(_FIELD)
        yield sha, author, subject, body, [path for path in files.split("\n") if path]


def found(clone: Path) -> list[Found]:
    """The most telling commits of a clone, each title once, as synthesis weighs them."""
    by_title: dict[str, Found] = {}
    for sha, author, subject, body, paths in commits(clone):
        if cues.is_bot(author):
            continue
        telling = cues.tell(subject, body, of=touched(paths), weight=min(len(paths), 30) / 5)
        if telling.quotes and telling.score >= cues.LEAST_SCORE:
            by_title.setdefault(telling.title.lower(), Found(telling.score, sha[:7], telling.title))
    return sorted(by_title.values(), reverse=True)[:MOST]


def measure(clones: Path, *, missed: bool) -> list[Figure]:
    """Precision on the repositories that rules were adjusted on, and on the others."""
    right: dict[bool, int] = {True: 0, False: 0}
    wrong: dict[bool, int] = {True: 0, False: 0}
    unlabelled = 0
    for name, labelled in LABELS.items():
        for each in found(clones / name):
            right[labelled.held_out] += each.commit in labelled.decisions
            wrong[labelled.held_out] += each.commit in labelled.others
            unlabelled += each.commit not in labelled.decisions | labelled.others
            if missed and each.commit in labelled.others:
                print(f"{name} {each.commit} {each.score:.0f} {each.title}")
    halves = (("held out", True), ("tuned", False))
    return [
        *(
            Figure(f"precision of decisions, {half}, {right[key] + wrong[key]} commits", _share(right[key], wrong[key]))
            for half, key in halves
        ),
        Figure("precision of decisions, all", _share(sum(right.values()), sum(wrong.values())), target=TARGET),
        Figure("commits without a label", unlabelled),
    ]


def _share(right: int, wrong: int) -> float:
    return right / max(right + wrong, 1)


if __name__ == "__main__":
    parser = options("How many of the found decisions are ones.")
    parser.add_argument("--clones", type=Path, required=True, help="a directory with owner/name below it")
    parser.add_argument("--missed", action="store_true", help="name what is wrongly taken for a decision")
    given = parser.parse_args()
    finish(measure(given.clones, missed=given.missed), as_json=given.json)
