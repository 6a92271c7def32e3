"""Owns the idea of an embedder: texts in, unit vectors out."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Embedder(Protocol):
    """Turns texts into unit vectors whose dot product is their likeness."""

    @property
    def id(self) -> str:
        """Names the model; vectors of different ids are never compared."""
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
