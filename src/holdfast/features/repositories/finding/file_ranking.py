"""Owns which files a piece of work is likely to touch: by what they say, and by what was done before and lately."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

DAY_MILLIS = 86_400_000


@dataclass(frozen=True, slots=True)
class FileWeights:
    """The weights; docs/search.md tells how they were chosen and checked.

    Words in paths, what changed together, and names alike (`x.py`, `test_x.py`) were tried as further parts: passages
    carry their paths and past commits their files already, and each part more made it worse.
    """

    passages: float = 1.0
    past: float = 0.8
    activity: float = 0.25
    further_passages: float = 0.3
    """What a file's second passage adds to its best; the third adds that part of it, and so on."""
    sharpness: float = 1.5
    """How much more alike work counts than less alike."""
    breadth: float = 0.5
    """Work on n files speaks for each of them with n to the power of minus this."""
    half_life_days: float = 730.0
    forgetting: float = 0.99
    """What is left of a change's part in the activity when one more commit came after it."""
    widest: int = 30
    """Work that changed more files is a sweep, and tells nothing of where people are at work."""


RECIPE = FileWeights()


@dataclass(frozen=True, slots=True)
class Past:
    """Work of the past: a commit or a pull request, with the files it changed as they are called now."""

    name: str
    paths: frozenset[str]
    breadth: int
    """How many files it changed, gone ones included."""
    at: int
    score: float = 0.0
    """How like the query it is."""


@dataclass(frozen=True, slots=True)
class FileEvidence:
    """What speaks for the files of one repository."""

    now: int
    passages: Sequence[tuple[str, float]]
    """Path and score of passages that are like the query."""
    alike: Sequence[Past]
    """What was done before that is like the query, the most alike first."""
    recent: Sequence[Past] = ()
    """What was done last, the newest first."""
    named: frozenset[str] = frozenset()
    """Files that the query names, or that define what it names."""


@dataclass(frozen=True, slots=True)
class RankedFile:
    """A file with its score 0–1, what spoke for it, strongest first, and the work that changed it before."""

    path: str
    score: float
    reasons: tuple[str, ...]
    past: tuple[str, ...]


def rank_files(evidence: FileEvidence, limit: int, recipe: FileWeights = RECIPE) -> list[RankedFile]:
    """The likeliest files, best first."""
    parts = {
        "passages": _weighed(_by_passages(evidence.passages, recipe), recipe.passages),
        "past": _weighed(_by_past(evidence, recipe), recipe.past),
        "activity": _weighed(_by_activity(evidence.recent, recipe), recipe.activity),
    }
    most = recipe.passages + recipe.past + recipe.activity
    scores: defaultdict[str, float] = defaultdict(float, dict.fromkeys(evidence.named, most))
    for part in parts.values():
        for path, value in part.items():
            scores[path] += value
    # What is only busy has nothing to do with the query.
    candidates = parts["passages"].keys() | parts["past"].keys() | evidence.named
    best = sorted(candidates, key=lambda path: (-scores[path], path))[:limit]
    return [
        RankedFile(
            path,
            round(min(1.0, scores[path] / most), 6),
            ("named",) * (path in evidence.named) + _reasons(path, parts),
            tuple(past.name for past in evidence.alike if path in past.paths),
        )
        for path in best
    ]


def _by_passages(passages: Sequence[tuple[str, float]], recipe: FileWeights) -> dict[str, float]:
    """The best passage of each file, and a little for each further one."""
    found: defaultdict[str, float] = defaultdict(float)
    often: Counter[str] = Counter()
    for path, score in sorted(passages, key=lambda pair: -pair[1]):
        found[path] += score * recipe.further_passages ** often[path]
        often[path] += 1
    return found


def _by_past(evidence: FileEvidence, recipe: FileWeights) -> dict[str, float]:
    """What alike work changed."""
    found: defaultdict[str, float] = defaultdict(float)
    for past in evidence.alike:
        age_days = max(0, evidence.now - past.at) / DAY_MILLIS
        fresh = 0.5 ** (age_days / recipe.half_life_days)
        for path in past.paths:
            found[path] += past.score**recipe.sharpness * past.breadth**-recipe.breadth * fresh
    return found


def _by_activity(recent: Sequence[Past], recipe: FileWeights) -> dict[str, float]:
    """Where people are at work."""
    found: defaultdict[str, float] = defaultdict(float)
    for commits_since, past in enumerate(recent):
        if past.breadth <= recipe.widest:
            for path in past.paths:
                found[path] += recipe.forgetting**commits_since * past.breadth**-recipe.breadth
    return found


def _weighed(found: Mapping[str, float], weight: float) -> dict[str, float]:
    """From nothing to the weight, which the best has."""
    most = max(found.values(), default=0.0)
    return {path: weight * value / most for path, value in found.items() if value > 0}


def _reasons(path: str, parts: Mapping[str, Mapping[str, float]]) -> tuple[str, ...]:
    told = {name: part[path] for name, part in parts.items() if path in part}
    return tuple(sorted(told, key=lambda name: -told[name]))
