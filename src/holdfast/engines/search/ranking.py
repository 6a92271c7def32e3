"""Owns the order of answers: what is said in conversations and everything else, each by its own recipe, in one list."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.engines.search import conversation
from holdfast.engines.search.pool import Pool, places_of
from holdfast.engines.search.scoring import RECIPE, RankedQuestion, Scores, at, bm25, dates, relevance, scaled
from holdfast.engines.search.text.speech import SPOKEN

SOFTNESS = 9.0
"""How many logits behind the best of a conversation something is shown as about a third as good."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate's number and its score, 0–1."""

    number: int
    score: float
    explanation: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fused:
    """What a recipe makes of candidates: the number they are ordered by, and each as a share of the best."""

    parts: Mapping[str, Scores]
    """What each feature adds."""
    total: Scores
    share: Scores


def rank(pool: Pool, question: RankedQuestion, limit: int, *, explain: bool = False) -> list[Ranked]:
    """The best candidates, best first.

    The fused score compares candidates of one recipe and is about 1 for the best of any query, so it alone says
    nothing of whether the best is any good: what is shown is how relevant each is by itself and beside the best.
    The shown score means the same for both recipes, and never rises down the list.
    """
    spoken = is_spoken(pool)
    found = _ranked(pool.part(np.flatnonzero(~spoken)), question, limit, by_recipe, explain)
    found += _ranked(pool.part(np.flatnonzero(spoken)), question, limit, by_conversation, explain)
    return sorted(found, key=lambda one: -one.score)[:limit]


def leads(pool: Pool, question: RankedQuestion, limit: int) -> NDArray[np.int64]:
    """The places of the best candidates that nobody spoke, best first."""
    others = pool.part(np.flatnonzero(~is_spoken(pool)))
    if not len(others.numbers):
        return np.zeros(0, np.int64)
    return others.places[_order(others, by_recipe(others, question).total, limit)]


def is_spoken(pool: Pool) -> NDArray[np.bool_]:
    """Which candidates are part of a conversation."""
    found: NDArray[np.bool_] = (pool.traits & SPOKEN) > 0
    return found


def _ranked(
    pool: Pool, question: RankedQuestion, limit: int, fuse: Callable[[Pool, RankedQuestion], Fused], explain: bool
) -> list[Ranked]:
    if not len(pool.numbers):
        return []
    fused = fuse(pool, question)
    order = _order(pool, fused.total, limit)
    own = relevance(pool.counts[order], pool.cosines[order], question, RECIPE)
    beside = float(own.max()) * fused.share[order]
    shown = np.minimum.accumulate(np.clip(0.5 * own + 0.5 * beside, 0.0, 1.0))
    told: dict[str, Scores] = {}
    if explain:
        told = {name: values[order] for name, values in (*fused.parts.items(), ("total", fused.total))}
        told |= {"relevance": own, "beside_best": beside}
    return [
        Ranked(
            int(pool.numbers[place]),
            round(float(shown[index]), 6),
            {name: round(float(values[index]) + 0.0, 4) for name, values in told.items()},
        )
        for index, place in enumerate(order.tolist())
    ]


def _order(pool: Pool, total: Scores, limit: int) -> NDArray[np.intp]:
    return np.lexsort((-pool.numbers, total))[::-1][:limit]


def by_conversation(pool: Pool, question: RankedQuestion) -> Fused:
    """What was said: its features by their learned weights."""
    values = conversation.features(pool, question) * conversation.WEIGHTS
    total: Scores = values.sum(axis=1)
    parts = dict(zip(conversation.FEATURES, values.T, strict=True))
    return Fused(parts, total, np.exp((total - float(total.max())) / SOFTNESS))


def by_recipe(pool: Pool, question: RankedQuestion) -> Fused:
    """Everything else: words and meaning of each candidate and its neighbours, by chosen weights."""
    recipe = RECIPE
    previous = places_of(pool.neighbours, pool.neighbours - 1)
    following = places_of(pool.neighbours, pool.neighbours + 1)
    counts, lengths, cosines = pool.counts, pool.lengths, pool.cosines
    meaning = np.clip(np.nan_to_num(cosines, nan=0.0), 0.0, 1.0)
    words = scaled(bm25(counts, lengths, question, recipe, 1))
    both = scaled(bm25(counts + at(previous, counts), lengths + at(previous, lengths), question, recipe, 2))
    # What is not embedded yet is judged by its words alone, not as if it meant nothing.
    waits = np.isnan(cosines)
    alike = np.where(waits, words, scaled(meaning))
    both_alike = np.where(waits, both, scaled(meaning + at(previous, meaning)))
    parts: dict[str, Scores] = {
        "words": recipe.words * words,
        "words_with_previous": recipe.words_with_previous * both,
        "meaning": recipe.meaning * alike,
        "meaning_with_previous": recipe.meaning_with_previous * both_alike,
    }
    own: Scores = np.sum(list(parts.values()), axis=0)
    parts |= {
        "neighbours": recipe.neighbours * (at(previous, own) + at(following, own)) / 2,
        "date": recipe.date * dates(pool, question.moments),
        "author": recipe.author * pool.named.astype(np.float64),
    }
    total: Scores = np.sum(list(parts.values()), axis=0)
    return Fused(parts, total, np.maximum(total, 0.0) / max(float(total.max()), 1e-9))
