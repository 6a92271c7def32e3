"""Owns what scores are made of: the recipe's numbers, BM25, and how candidates of one query are compared."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.engines.search.pool import Pool
from holdfast.engines.search.text.moments import Moments

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RankingWeights:
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
    few_entries: int = 500
    """Among more of them some are nearer to anything: what counts as unrelated grows, up to a bound."""
    unrelated_growth: float = 0.24
    most_unrelated_cosine: float = 0.3
    same_cosine: float = 0.75
    """What two ways of saying the same have."""
    unknown_word: float = 1.5
    """How many times a word counts that nothing has: what is asked for is probably not here. More so among many."""
    unknown_growth: float = 0.7
    most_unknown_word: float = 2.0


RECIPE = RankingWeights()


@dataclass(frozen=True, slots=True)
class RankedQuestion:
    """What ranking knows of a query."""

    weights: Mapping[str, float]
    """How much each word tells: its inverse document frequency."""
    mean_length: float
    moments: Moments
    entries: int
    """How many there are to choose from."""
    unknown: frozenset[str]
    """The words that nothing in the workspace has."""
    asks_when: bool = False
    """Whether it wants to know a time."""


def weight(frequency: int, entries: int) -> float:
    """How much a word tells that so many of the entries hold."""
    return math.log(1 + (entries - min(frequency, entries) + 0.5) / (frequency + 0.5))


def _crowd(entries: int, recipe: RankingWeights) -> float:
    """How much nearer the nearest of so many entries is by chance than the nearest of few, in deviations.

    The greatest of n random values stands about √(2 ln n) deviations above their mean.
    """
    few, many = (math.sqrt(2 * math.log(count)) for count in (recipe.few_entries, max(entries, recipe.few_entries)))
    return many - few


def relevance(counts: Scores, cosines: Scores, question: RankedQuestion, recipe: RankingWeights) -> Scores:
    """How much a candidate has to do with the query, whatever the other candidates are."""
    crowd = _crowd(question.entries, recipe)
    unrelated = min(recipe.unrelated_cosine + recipe.unrelated_growth * crowd, recipe.most_unrelated_cosine)
    against = min(recipe.unknown_word + recipe.unknown_growth * crowd, recipe.most_unknown_word)
    weights = np.array([w * against if word in question.unknown else w for word, w in question.weights.items()])
    total = float(weights.sum())
    covered = 0.9 * ((counts > 0) @ weights) / total if total > 0 else np.zeros(len(cosines))
    alike = np.clip((cosines - unrelated) / (recipe.same_cosine - unrelated), 0.0, 1.0)
    alike = np.where(np.isnan(cosines), covered, alike)
    result: Scores = np.clip(0.8 * np.maximum(alike, covered) + 0.2 * (alike + covered) / 2, 0.0, 1.0)
    return result


def at(places: NDArray[np.intp], values: Scores) -> Scores:
    """The values at those places, zero for none."""
    found = values[places]
    found[places < 0] = 0.0
    return found


def bm25(counts: Scores, lengths: Scores, question: RankedQuestion, recipe: RankingWeights, entries: int) -> Scores:
    """How well candidates, each made of so many entries, match by words."""
    if not question.weights:
        return np.zeros(len(lengths))
    weights = np.array(list(question.weights.values()))
    relative = lengths / max(question.mean_length * entries, 1.0)
    damping = recipe.saturation * (1 - recipe.length_weight + recipe.length_weight * relative)
    result: Scores = (counts * (recipe.saturation + 1) / (counts + damping[:, None])) @ weights
    return result


def scaled(values: Scores) -> Scores:
    """From the least to the most: 0–1. Values that hardly differ stay close, or rounding errors would decide."""
    least, most = float(values.min()), float(values.max())
    if most <= 0:
        return np.zeros_like(values)
    spread = max(most - least, 0.1 * most)
    return 1.0 - (most - values) / spread


def dates(pool: Pool, moments: Moments) -> Scores:
    """How well the moment of each fits what the query says of time."""
    if not moments:
        return np.zeros(len(pool.numbers))
    distinct, places = np.unique(pool.moments, return_inverse=True)
    return np.array([moments.fit(moment) for moment in distinct.tolist()])[places]
