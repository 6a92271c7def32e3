"""Fits the weights by which conversations are ranked: a logistic fusion, judged on conversations that it did not see.

Every question is put to the product's own candidates and features; nothing is approximated but the rows, which are not
in a database. Prints recall@10 leave-one-conversation-out, then the weights fitted on all, to be copied into
`engines/search/conversation.py`.
"""

import asyncio
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.report import Figure, finish, options
from bench.retrieval import TYPES, turns
from bench.vectors import RememberingEmbedder
from holdfast.engines.search import conversation
from holdfast.engines.search.embedders.base import Embedder
from holdfast.engines.search.embedders.minilm import MiniLmEmbedder
from holdfast.engines.search.engine import candidates, without_names
from holdfast.engines.search.pool import Places, Pool
from holdfast.engines.search.stores.base import Statistics, Vector, View
from holdfast.engines.search.stores.index_view import IndexView
from holdfast.engines.search.stores.workspace_index import IndexedEntry, WorkspaceIndex
from holdfast.engines.search.text import analyser
from holdfast.engines.search.text.authors import KnownAuthors
from holdfast.engines.search.text.speech import meant_text, traits

Matrix = NDArray[np.float64]

AT = 10
LIMIT = 10
NOW = 1_790_000_000_000
REGULARISATION = 3.0
OTHERS_WEIGHT = 1 / 30
"""What a candidate that is no evidence counts, so that a question's few right ones are not drowned."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question's candidates: their features, and which are evidence."""

    conversation: int
    category: int
    features: Matrix
    right: NDArray[np.bool_]
    evidence: int

    def recall(self, weights: Matrix) -> float:
        """The share of the evidence among the first ten."""
        first = np.argsort(-(self.features @ weights), kind="stable")[:AT]
        return float(self.right[first].sum()) / self.evidence


class Shelf(View):
    """A conversation as SQLite's store has it in memory."""

    def __init__(self, index: WorkspaceIndex) -> None:
        self._view = IndexView(index, types=None, at=NOW, known_by=None, allowed=None)

    def statistics(self, words: Sequence[str]) -> Statistics:
        entries, length = self._view.totals
        return Statistics(entries, entries, length / max(entries, 1), self._view.frequencies(words))

    def lexical(self, weights: Mapping[str, float], mean_length: float, limit: int) -> Places:
        return self._view.lexical(weights, mean_length, limit)

    def nearest(self, vector: Vector, limit: int) -> Places:
        return self._view.nearest(vector, limit)

    def around(self, places: Places, before: int = 1, after: int = 1) -> Places:
        return self._view.around(places, before, after)

    def pool(self, places: Places, words: Sequence[str], vector: Vector | None, authors: Collection[str]) -> Pool:
        return self._view.pool(places, words, vector, authors)

    def cosines(self, places: Places, vector: Vector) -> list[tuple[str, float]]:
        raise NotImplementedError("ranking needs no exact cosines")


async def ask_all(path: Path, embedder: Embedder) -> list[Asked]:
    """Every question with evidence, put to its conversation."""
    asked: list[Asked] = []
    for number, sample in enumerate(json.loads(path.read_text())):
        asked += await _ask(number, sample, embedder)
    return asked


async def _ask(number: int, sample: dict[str, Any], embedder: Embedder) -> list[Asked]:
    spoken = list(turns(sample["conversation"]))
    texts = [f"{turn.speaker}: {turn.text}" for turn in spoken]
    vectors = await embedder.embed([meant_text("", text) for text in texts])
    index, known = WorkspaceIndex(embedder.dimensions), KnownAuthors()
    for place, (turn, text) in enumerate(zip(spoken, texts, strict=True)):
        known.add(turn.speaker)
        index.put(
            IndexedEntry(
                place + 1,
                "memory",
                turn.moment,
                occurred_at=turn.moment,
                author=turn.speaker,
                source=turn.session,
                position=turn.position,
                traits=traits(text),
                codes=analyser.coded(text) + analyser.coded(turn.speaker),
                vector=vectors[place].astype(np.float16).tobytes(),
            )
        )
    numbers = {turn.id: place + 1 for place, turn in enumerate(spoken)}
    shelf = Shelf(index)
    questions = [one for one in sample["qa"] if numbers.keys() & set(one.get("evidence", []))]
    named = [known.named(one["question"]) for one in questions]
    bare = [without_names(one["question"], names) for one, names in zip(questions, named, strict=True)]
    found = []
    for one, names, vector in zip(questions, named, await embedder.embed(bare), strict=True):
        evidence = [numbers[id] for id in set(one["evidence"]) if id in numbers]
        pool, question = candidates(shelf, one["question"], vector, names, LIMIT, NOW)
        right = np.isin(pool.numbers, evidence)
        found.append(Asked(number, one["category"], conversation.features(pool, question), right, len(evidence)))
    return found


def fit(asked: Sequence[Asked]) -> Matrix:
    """The weights that make evidence likeliest, by Newton's method on standardised features."""
    features = np.vstack([one.features for one in asked])
    right = np.concatenate([one.right for one in asked]).astype(np.float64)
    counts = np.concatenate([np.where(one.right, 1 / max(one.right.sum(), 1), OTHERS_WEIGHT) for one in asked])
    deviations = features.std(axis=0) + 1e-9
    scaled = np.hstack(((features - features.mean(axis=0)) / deviations, np.ones((len(features), 1))))
    penalty = REGULARISATION * np.eye(scaled.shape[1])
    penalty[-1, -1] = 1e-6
    weights = np.zeros(scaled.shape[1])
    for _ in range(40):
        odds = 1 / (1 + np.exp(-np.clip(scaled @ weights, -30, 30)))
        slope = scaled.T @ (counts * (odds - right)) + penalty @ weights
        bend = (scaled * (counts * odds * (1 - odds))[:, None]).T @ scaled + penalty
        step = np.linalg.solve(bend, slope)
        weights -= step
        if np.abs(step).max() < 1e-6:
            break
    result: Matrix = weights[:-1] / deviations
    return result


def held_out(asked: Sequence[Asked]) -> Iterator[tuple[Asked, float]]:
    """Each question with its recall by weights that never saw its conversation."""
    for number in sorted({one.conversation for one in asked}):
        weights = fit([one for one in asked if one.conversation != number])
        for one in asked:
            if one.conversation == number:
                yield one, one.recall(weights)


async def measure(path: Path, cache: Path) -> list[Figure]:
    """Fit and judge."""
    embedder = RememberingEmbedder(MiniLmEmbedder(), cache)
    asked = await ask_all(path, embedder)
    await embedder.close()
    aside = list(held_out(asked))
    weights = fit(asked)
    print("Weights fitted on all conversations, and what recall@10 on conversations kept aside loses without each:\n")
    whole = _mean([recall for _, recall in aside])
    for place, (name, value) in enumerate(zip(conversation.FEATURES, weights.tolist(), strict=True)):
        without = [_without(one, place) for one in asked]
        loss = whole - _mean([recall for _, recall in held_out(without)])
        print(f"    {name:18} {value:6.2f}   {loss:5.2f}")
    print()
    figures = [Figure(f"recall@10 kept aside, all ({len(aside)} questions)", whole, "%")]
    for category, name in TYPES.items():
        figures.append(
            Figure(
                f"recall@10 kept aside, {name}",
                _mean([recall for one, recall in aside if one.category == category]),
                "%",
            )
        )
    figures += [
        Figure("recall@10 fitted on the same", _mean([one.recall(weights) for one in asked]), "%"),
        Figure("recall@10 by the weights shipped", _mean([one.recall(conversation.WEIGHTS) for one in asked]), "%"),
        Figure("evidence among the candidates", _mean([one.right.sum() / one.evidence for one in asked]), "%"),
        Figure("candidates of a question", float(np.mean([len(one.right) for one in asked])), ""),
    ]
    return figures


def _without(asked: Asked, place: int) -> Asked:
    features = asked.features.copy()
    features[:, place] = 0.0
    return Asked(asked.conversation, asked.category, features, asked.right, asked.evidence)


def _mean(shares: Sequence[float]) -> float:
    return 100 * sum(shares) / max(len(shares), 1)


def main() -> None:
    """Fit as the arguments say."""
    parser = options((__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared/data/locomo-dev.json")
    parser.add_argument(
        "--cache", type=Path, default=Path("/tmp/holdfast-bench-vectors"), help="where vectors are kept"
    )
    chosen = parser.parse_args()
    finish(asyncio.run(measure(chosen.data, chosen.cache)), as_json=chosen.json)


if __name__ == "__main__":
    main()
