"""Owns the idea of an embedder: texts in, unit vectors out."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

MINILM = "all-MiniLM-L6-v2-integers"
STILL_COMPARED: Mapping[str, tuple[str, ...]] = {MINILM: ("all-MiniLM-L6-v2-int8",)}
"""Earlier embedders whose vectors are so near to an embedder's (cosines of 0.994) that they serve until replaced."""

OWN = 0.99
"""The cosine from which a vector is a text's own direction; chance does not come near it."""


class Embedder(Protocol):
    """Turns texts into unit vectors whose dot product is their likeness."""

    @property
    def id(self) -> str:
        """Names the model; vectors of different ids are not compared, but for those of STILL_COMPARED."""
        ...

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        ...

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One unit vector per text, computed off the event loop."""
        ...

    async def close(self) -> None:
        """Let go of the model."""
        ...


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Every row scaled to length one."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-9), np.float32)


def own_direction(text: str, dimensions: int) -> NDArray[np.float32]:
    """The vector of a text that a model cannot read: one that only the very same text has."""
    seed = int.from_bytes(hashlib.sha256(text.encode(errors="replace")).digest()[:8], "big")
    return np.asarray(unit(np.random.default_rng(seed).standard_normal((1, dimensions)).astype(np.float32))[0])


def is_unread(text: str, vector: NDArray[np.float32]) -> bool:
    """Whether a vector says no more than which text it is of."""
    return bool(np.dot(vector, own_direction(text, len(vector))) > OWN)
