"""Owns the embedder without a model: words hashed to directions. Deterministic and instant; knows no synonyms."""

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from holdfast.engines.search.embedders.base import unit
from holdfast.engines.search.text import analyser


class WordEmbedder:
    """Texts that share words get like vectors. Stands in for the model where its seconds would be waited for."""

    def __init__(self, dimensions: int = 256) -> None:
        self.dimensions = dimensions
        self.id = f"words-{dimensions}"

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One unit vector per text; quick enough to run where it is called."""
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in enumerate(texts):
            for word in analyser.words(text) or [text]:
                vectors[row] += _direction(word, self.dimensions)
        return unit(vectors)

    async def close(self) -> None:
        """Nothing is held."""


@lru_cache(maxsize=50_000)
def _direction(word: str, dimensions: int) -> NDArray[np.float32]:
    seed = int.from_bytes(hashlib.blake2b(word.encode(errors="replace"), digest_size=8).digest(), "big")
    return np.random.default_rng(seed).standard_normal(dimensions).astype(np.float32) / np.float32(dimensions**0.5)
