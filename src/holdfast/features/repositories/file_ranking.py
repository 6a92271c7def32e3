"""Owns which files a piece of work is likely to touch: by what they say, their names, and what was done before."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.engines.search import analyser

DAY_MILLIS = 86_400_000
LIKELY = 10
"""So many of the likeliest files speak for those that changed with them."""
WIDEST = 20
"""Work that changed more files says nothing of which belong together."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The weights; docs/search.md tells how they were chosen and checked."""

    passages: float = 1.0
    paths: float = 0.5
    commits: float = 0.8
    together: float = 0.3
    further_passages: float = 0.15
    """What each further passage of a file adds to its best, less and less."""
    sharpness: float = 2.0
    """How much more an alike commit counts than a less alike one."""
    breadth: float = 0.5
    """A commit of n files speaks for each of them with n to the power of minus this."""
    half_life_days: float = 365.0


RECIPE = Recipe()


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


@dataclass(slots=True)
class Evidence:
    """What speaks for the files of one repository."""

    query: str
    now: int
    paths: Sequence[str]
    """The files at the head."""
    passages: Sequence[tuple[str, float]]
    """Path and score of passages that are like the query."""
    alike: Sequence[Past]
    """What was done before that is like the query."""
    recent: Sequence[Past] = ()
    """What was done last, whatever it is about."""
    named: frozenset[str] = frozenset()
    """Files that the query names or whose symbols it names."""


@dataclass(frozen=True, slots=True)
class RankedFile:
    """A file with its score, what spoke for it, strongest first, and the work that changed it before."""

    path: str
    score: float
    reasons: tuple[str, ...] = ()
    past: tuple[str, ...] = ()


def rank_files(evidence: Evidence, limit: int, recipe: Recipe = RECIPE) -> list[RankedFile]:
    """The likeliest files, best first."""
    current = set(evidence.paths)
    changed, spoke = _by_past(evidence, recipe)
    parts: dict[str, tuple[float, Mapping[str, float]]] = {
        "passages": (recipe.passages, _by_passages(evidence.passages, recipe)),
        "path": (recipe.paths, _by_paths(evidence.query, evidence.paths)),
        "commits": (recipe.commits, changed),
    }
    scores: defaultdict[str, float] = defaultdict(float)
    for weight, found in parts.values():
        for path, value in _scaled(found).items():
            scores[path] += weight * value
    for path, value in _scaled(_together(evidence.recent, scores)).items():
        scores[path] += recipe.together * value
    most = sum(weight for weight, _ in parts.values()) + recipe.together
    for path in evidence.named:
        scores[path] += most
    best = sorted((path for path in scores if path in current), key=lambda path: (-scores[path], path))[:limit]
    return [
        RankedFile(
            path,
            round(min(1.0, scores[path] / most), 6),
            _reasons(path, parts, path in evidence.named),
            tuple(spoke.get(path, ())),
        )
        for path in best
    ]


def _by_passages(passages: Sequence[tuple[str, float]], recipe: Recipe) -> dict[str, float]:
    """The best passage of each file, and a little for each further one."""
    found: dict[str, float] = {}
    often: Counter[str] = Counter()
    for path, score in sorted(passages, key=lambda pair: -pair[1]):
        found[path] = found.get(path, 0.0) + score * (recipe.further_passages ** often[path] if often[path] else 1.0)
        often[path] += 1
    return found


def _by_paths(query: str, paths: Sequence[str]) -> dict[str, float]:
    """How many of the query's words stand in each path, rare words above common ones."""
    wanted = set(analyser.query_words(query))
    present = {path: wanted.intersection(analyser.words(path)) for path in paths}
    often = Counter(word for words in present.values() for word in words)
    return {
        path: sum(math.log(1 + len(paths) / often[word]) for word in words) / math.sqrt(len(path.split("/")))
        for path, words in present.items()
        if words
    }


def _by_past(evidence: Evidence, recipe: Recipe) -> tuple[dict[str, float], dict[str, list[str]]]:
    """What alike work changed, and which work that was."""
    found: defaultdict[str, float] = defaultdict(float)
    spoke: defaultdict[str, list[str]] = defaultdict(list)
    for past in evidence.alike:
        age_days = max(0, evidence.now - past.at) / DAY_MILLIS
        fresh = 0.5 ** (age_days / recipe.half_life_days)
        weight = past.score**recipe.sharpness * max(1, past.breadth) ** -recipe.breadth * fresh
        for path in past.paths:
            found[path] += weight
            spoke[path].append(past.name)
    return dict(found), dict(spoke)


def _together(recent: Sequence[Past], scores: Mapping[str, float]) -> dict[str, float]:
    """What often changed with the likeliest files."""
    likely = dict(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:LIKELY])
    seen: Counter[str] = Counter()
    both: defaultdict[str, float] = defaultdict(float)
    for past in recent:
        if past.breadth > WIDEST:
            continue
        seen.update(past.paths)
        value = max((likely.get(path, 0.0) for path in past.paths), default=0.0)
        for path in past.paths:
            both[path] += value if likely.get(path, 0.0) < value else 0.0
    return {path: value / (seen[path] + 2) for path, value in both.items() if value > 0}


def _scaled(found: Mapping[str, float]) -> dict[str, float]:
    most = max(found.values(), default=0.0)
    return {path: value / most for path, value in found.items()} if most > 0 else {}


def _reasons(path: str, parts: Mapping[str, tuple[float, Mapping[str, float]]], named: bool) -> tuple[str, ...]:
    told = {name: weight * _scaled(found).get(path, 0.0) for name, (weight, found) in parts.items()}
    ordered = sorted((name for name, value in told.items() if value > 0), key=lambda name: -told[name])
    return ("named", *ordered) if named else tuple(ordered)
