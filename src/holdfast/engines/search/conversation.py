"""Owns the order of what was said in conversations: the features of each turn, and the weights that fuse them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.engines.search.pool import Pool, places_of
from holdfast.engines.search.scoring import RECIPE, RankedQuestion, RankingWeights, Scores, at, bm25, dates, scaled
from holdfast.engines.search.text.speech import ASKS, FIRST_PERSON, NAMED, TELLS_WHEN

BEFORE, AFTER = 2, 1
"""How far a turn's window reaches: what was said just before makes sense of it, the reply sometimes repeats it."""


@dataclass(frozen=True, slots=True)
class TurnFeature:
    """What a feature weighs, and what it is. The weight is in logits: how much the odds of being the answer grow."""

    weight: float
    what: str


# Fitted by `python -m bench.fit` on public conversations; docs/decisions/0035 tells how and what it gives on others.
FEATURES: Mapping[str, TurnFeature] = {
    "words": TurnFeature(1.86, "BM25 of the turn, beside the candidates' best"),
    "window_words": TurnFeature(2.52, "the share of the query's words, by weight, of the turn and those around it"),
    "meaning": TurnFeature(2.11, "the turn's cosine with the query, from the candidates' least to their most"),
    "window_meaning": TurnFeature(0.26, "the cosines of the turn and those around it together, likewise"),
    "nearest_meaning": TurnFeature(1.9, "the best cosine among the turn, the one before and the one after, likewise"),
    "answers": TurnFeature(0.99, "the cosine of the turn before, where that one asks something"),
    "session": TurnFeature(3.91, "the best that was said in its conversation, by words and meaning"),
    "date": TurnFeature(2.19, "how well its date fits a date in the query"),
    "author": TurnFeature(1.36, "the query names who said it"),
    "asks": TurnFeature(-1.14, "it asks itself, so it tells little"),
    "first_person": TurnFeature(0.73, "somebody tells of themselves"),
    "length": TurnFeature(0.72, "the logarithm of its words: a greeting tells little"),
    "tells_when": TurnFeature(0.69, "it has a word of time, where the query asks when"),
}
WEIGHTS = np.array([one.weight for one in FEATURES.values()])
LEAST_SPREAD = 0.3
USUAL_ASKS, USUAL_FIRST_PERSON, USUAL_LENGTH = 0.25, 0.75, 2.3
"""What turns have on average: where nobody is seen to speak, nothing is judged by manner, for better or worse."""


def features(pool: Pool, question: RankedQuestion, recipe: RankingWeights = RECIPE) -> NDArray[np.float64]:
    """What the fusion looks at: a row for each candidate, a column for each of FEATURES."""
    previous, following, earlier = (places_of(pool.neighbours, pool.neighbours + step) for step in (-1, 1, -2))
    counts, lengths = pool.counts, pool.lengths
    words = scaled(bm25(counts, lengths, question, recipe, 1))
    meaning = _meaning(pool.cosines, words)
    before, after = at(previous, meaning), at(following, meaning)
    both = scaled(bm25(counts + at(previous, counts), lengths + at(previous, lengths), question, recipe, 2))
    base = recipe.words * words + recipe.words_with_previous * both
    base += recipe.meaning * scaled(meaning) + recipe.meaning_with_previous * scaled(meaning + before)
    window = counts + at(previous, counts) + at(following, counts) + at(earlier, counts)
    named = (pool.traits & NAMED) > 0
    asks = (pool.traits & ASKS) > 0
    # One below the other in the order of FEATURES.
    columns = (
        words,
        _covered(window, question),
        _spread(meaning),
        _spread(meaning + before + after + at(earlier, meaning)),
        _spread(np.maximum(meaning, np.maximum(before, after))),
        at(previous, asks * _spread(meaning)),
        _best_of_source(pool.neighbours, base),
        dates(pool, question.moments),
        pool.named,
        np.where(named, asks - USUAL_ASKS, 0.0),
        np.where(named, ((pool.traits & FIRST_PERSON) > 0) - USUAL_FIRST_PERSON, 0.0),
        np.where(named, np.log1p(lengths) - USUAL_LENGTH, 0.0),
        ((pool.traits & TELLS_WHEN) > 0) & question.asks_when,
    )
    return np.stack([np.asarray(column, np.float64) for column in columns], axis=1)


def _meaning(cosines: Scores, words: Scores) -> Scores:
    """The cosines; what has no vector yet is judged by its words alone, not as if it meant nothing."""
    waits = np.isnan(cosines)
    known = np.clip(np.where(waits, 0.0, cosines), 0.0, 1.0)
    if not waits.any():
        return known
    return np.where(waits, words * (float(known.max()) if not waits.all() else 1.0), known)


def _covered(counts: Scores, question: RankedQuestion) -> Scores:
    weights = np.array(list(question.weights.values()))
    total = float(weights.sum())
    result: Scores = ((counts > 0) @ weights) / total if total > 0 else np.zeros(len(counts))
    return result


def _spread(values: Scores) -> Scores:
    """From the least to the most: 0–1. Cosines that hardly differ stay close, or chance would decide among few."""
    least, most = float(values.min()), float(values.max())
    return 1.0 - (most - values) / max(most - least, LEAST_SPREAD)


def _best_of_source(neighbours: NDArray[np.int64], values: Scores) -> Scores:
    """For each candidate the best of its source; its own where it has none."""
    sources = np.where(neighbours < 0, -1 - np.arange(len(neighbours)), neighbours >> 32)
    distinct, places = np.unique(sources, return_inverse=True)
    best = np.full(len(distinct), -np.inf)
    np.maximum.at(best, places, values)
    result: Scores = best[places]
    return result
