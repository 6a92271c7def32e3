"""Owns the order of answers: word and meaning scores of each candidate and its neighbours, fused into one number."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.engines.search.analyser import code
from holdfast.engines.search.moments import Moments
from holdfast.engines.search.store import Candidate

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The weights. They were chosen on public conversations; docs/decisions tells how."""

    words: float = 0.25
    words_with_previous: float = 0.2
    meaning: float = 0.35
    meaning_with_previous: float = 0.2
    neighbours: float = 0.3
    date: float = 0.3
    author: float = 0.12
    saturation: float = 1.2
    length_weight: float = 0.4
    unrelated_cosine: float = 0.05
    """What two texts about nothing in common have; a score starts to count above it."""
    same_cosine: float = 0.75
    """What two ways of saying the same have."""


RECIPE = Recipe()


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its score, 0–1."""

    candidate: Candidate
    score: float


@dataclass(frozen=True, slots=True)
class Question:
    """What ranking knows of a query."""

    weights: Mapping[str, float]
    """How much each word tells: its inverse document frequency."""
    mean_length: float
    moments: Moments
    authors: frozenset[str]


def weight(frequency: int, entries: int) -> float:
    """How much a word tells that so many of the entries hold."""
    return math.log(1 + (entries - min(frequency, entries) + 0.5) / (frequency + 0.5))


def rank(candidates: Sequence[Candidate], question: Question, limit: int, recipe: Recipe = RECIPE) -> list[Ranked]:
    """The best candidates, best first."""
    if not candidates:
        return []
    previous, following = _neighbours(candidates)
    counts = _counts(candidates, list(question.weights))
    lengths = np.array([candidate.length for candidate in candidates], np.float64)
    cosines = np.array([np.nan if one.cosine is None else one.cosine for one in candidates])
    meaning = np.clip(np.nan_to_num(cosines, nan=0.0), 0.0, 1.0)
    words = _scaled(_bm25(counts, lengths, question, recipe, 1))
    both = _scaled(_bm25(counts + _of(previous, counts), lengths + _of(previous, lengths), question, recipe, 2))
    # What is not embedded yet is judged by its words alone, not as if it meant nothing.
    waits = np.isnan(cosines)
    alike = np.where(waits, words, _scaled(meaning))
    both_alike = np.where(waits, both, _scaled(meaning + _of(previous, meaning)))
    fused = recipe.words * words + recipe.words_with_previous * both
    fused += recipe.meaning * alike + recipe.meaning_with_previous * both_alike
    fused = fused + recipe.neighbours * (_of(previous, fused) + _of(following, fused)) / 2
    fused += recipe.date * _dates(candidates, question.moments)
    fused += recipe.author * np.array([one.author in question.authors for one in candidates], np.float64)
    relevance = _relevance(counts, cosines, question, recipe)
    return _best(candidates, fused, relevance, limit)


def _best(candidates: Sequence[Candidate], fused: Scores, relevance: Scores, limit: int) -> list[Ranked]:
    """Order by the fused score; show how relevant each is by itself and beside the best.

    The fused score compares candidates of one query and is about 1 for the best of any query, so it alone says
    nothing of whether the best is any good. The shown score never rises down the list.
    """
    order = np.lexsort((np.array([-one.number for one in candidates]), fused))[::-1][:limit]
    top = max(float(fused[order[0]]), 1e-9)
    strongest = float(relevance[order].max())
    found, bound = [], 1.0
    for index in order:
        beside = strongest * max(float(fused[index]), 0.0) / top
        bound = min(bound, max(0.0, 0.5 * float(relevance[index]) + 0.5 * beside))
        found.append(Ranked(candidates[index], round(bound, 6)))
    return found


def _relevance(counts: Scores, cosines: Scores, question: Question, recipe: Recipe) -> Scores:
    """How much a candidate has to do with the query, whatever the other candidates are."""
    weights = np.array(list(question.weights.values()))
    total = float(weights.sum())
    covered = 0.9 * ((counts > 0) @ weights) / total if total > 0 else np.zeros(len(cosines))
    span = recipe.same_cosine - recipe.unrelated_cosine
    alike = np.clip((cosines - recipe.unrelated_cosine) / span, 0.0, 1.0)
    alike = np.where(np.isnan(cosines), covered, alike)
    result: Scores = np.clip(0.8 * np.maximum(alike, covered) + 0.2 * (alike + covered) / 2, 0.0, 1.0)
    return result


def _neighbours(candidates: Sequence[Candidate]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """For each candidate the places of the previous and the next of its source, -1 for none."""
    place = {(one.source, one.position): index for index, one in enumerate(candidates) if one.source}
    previous = [place.get((one.source, one.position - 1), -1) if one.source else -1 for one in candidates]
    following = [place.get((one.source, one.position + 1), -1) if one.source else -1 for one in candidates]
    return np.array(previous, np.intp), np.array(following, np.intp)


def _of(places: NDArray[np.intp], values: Scores) -> Scores:
    """The values at those places, zero for none."""
    found = values[places]
    found[places < 0] = 0.0
    return found


def _counts(candidates: Sequence[Candidate], words: Sequence[str]) -> Scores:
    """How often each candidate has each word."""
    counts = np.zeros((len(candidates), len(words)))
    sizes = np.array([len(one.codes) // 4 for one in candidates])
    codes = np.frombuffer(b"".join(one.codes for one in candidates), np.uint32)
    owners = np.repeat(np.arange(len(candidates)), sizes)
    for index, word in enumerate(words):
        counts[:, index] = np.bincount(owners[codes == code(word)], minlength=len(candidates))
    return counts


def _bm25(counts: Scores, lengths: Scores, question: Question, recipe: Recipe, entries: int) -> Scores:
    if not question.weights:
        return np.zeros(len(lengths))
    weights = np.array(list(question.weights.values()))
    relative = lengths / max(question.mean_length * entries, 1.0)
    damping = recipe.saturation * (1 - recipe.length_weight + recipe.length_weight * relative)
    result: Scores = (counts * (recipe.saturation + 1) / (counts + damping[:, None])) @ weights
    return result


def _scaled(values: Scores) -> Scores:
    """From the least to the most: 0–1. Values that hardly differ stay close, or rounding errors would decide."""
    least, most = float(values.min()), float(values.max())
    if most <= 0:
        return np.zeros_like(values)
    spread = max(most - least, 0.1 * most)
    return 1.0 - (most - values) / spread


def _dates(candidates: Sequence[Candidate], moments: Moments) -> Scores:
    if not moments:
        return np.zeros(len(candidates))
    return np.array([moments.fit(one.learned_at if one.occurred_at is None else one.occurred_at) for one in candidates])
