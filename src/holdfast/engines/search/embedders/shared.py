"""Owns that a text is embedded once: recent vectors are remembered, and who asks meanwhile waits for the same."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from holdfast.engines.search.embedders.base import Embedder

Vector = NDArray[np.float32]
LONGEST_KEY = 200
"""Longer texts are remembered by their digest, which takes less room."""


class SharedEmbedder:
    """Another embedder, asked once for each text as long as it is remembered."""

    def __init__(self, embedder: Embedder, remembered: int) -> None:
        self.id, self.dimensions = embedder.id, embedder.dimensions
        self._embedder = embedder
        self._most = remembered
        self._remembered: OrderedDict[str | bytes, Vector] = OrderedDict()
        self._under_way: dict[str | bytes, asyncio.Task[Mapping[str | bytes, Vector]]] = {}

    async def embed(self, texts: Sequence[str]) -> Vector:
        """One unit vector per text."""
        keys = [_key(text) for text in texts]
        vectors = {key: self._remembered[key] for key in keys if key in self._remembered}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in vectors}
        fresh = {key: text for key, text in missing.items() if key not in self._under_way}
        if fresh:
            task = asyncio.create_task(self._ask(fresh))
            self._under_way |= dict.fromkeys(fresh, task)
            task.add_done_callback(lambda done: self._finish(done, fresh))
        for task in {self._under_way[key] for key in missing}:
            # Whoever gives up leaves the others their answer.
            vectors |= await asyncio.shield(task)
        for key in keys:
            self._remember(key, vectors[key])
        return np.array([vectors[key] for key in keys], np.float32).reshape(len(texts), self.dimensions)

    async def close(self) -> None:
        """Close the embedder behind it."""
        await self._embedder.close()

    async def _ask(self, fresh: Mapping[str | bytes, str]) -> Mapping[str | bytes, Vector]:
        return dict(zip(fresh, await self._embedder.embed(list(fresh.values())), strict=True))

    def _finish(self, done: "asyncio.Task[Mapping[str | bytes, Vector]]", fresh: Mapping[str | bytes, str]) -> None:
        for key in fresh:
            self._under_way.pop(key, None)
        if not done.cancelled() and done.exception() is None:
            for key, vector in done.result().items():
                self._remember(key, vector)

    def _remember(self, key: str | bytes, vector: Vector) -> None:
        self._remembered[key] = vector
        self._remembered.move_to_end(key)
        if len(self._remembered) > self._most:
            self._remembered.popitem(last=False)


def _key(text: str) -> str | bytes:
    return text if len(text) <= LONGEST_KEY else blake2b(text.encode(errors="replace"), digest_size=16).digest()
