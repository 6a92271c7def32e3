"""Owns an embedder that remembers on disk what it embedded, so that measuring again takes no model."""

import os
import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from holdfast.engines.search.embedders.base import Embedder

BETWEEN_SAVES = 500


class RememberingEmbedder:
    """Another embedder's vectors, each text embedded once as long as the file lives."""

    def __init__(self, embedder: Embedder, path: Path) -> None:
        self._embedder = embedder
        self._path = path.with_name(f"{path.name}-{embedder.id}.pickle")
        # Ours alone: nobody else writes pickles there.
        self._known: dict[str, NDArray[np.float32]] = (
            pickle.loads(self._path.read_bytes()) if self._path.exists() else {}
        )
        self._unsaved = 0
        self.id, self.dimensions = embedder.id, embedder.dimensions

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors from the file, and of the model for what is not in it."""
        missing = list(dict.fromkeys(text for text in texts if text not in self._known))
        if missing:
            self._known.update(zip(missing, await self._embedder.embed(missing), strict=True))
            self._unsaved += len(missing)
        if self._unsaved >= BETWEEN_SAVES:
            self._save()
        return np.array([self._known[text] for text in texts], np.float32).reshape(len(texts), self.dimensions)

    async def close(self) -> None:
        """Keep what is new, and let go of the model."""
        self._save()
        await self._embedder.close()

    def _save(self) -> None:
        if self._unsaved:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            beside = self._path.with_suffix(".new")
            beside.write_bytes(pickle.dumps(self._known))
            os.replace(beside, self._path)
            self._unsaved = 0
