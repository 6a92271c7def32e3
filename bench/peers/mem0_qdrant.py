"""mem0 on a local qdrant, with given vectors and without a model (`infer=False`)."""

import os
from typing import Any

from bench.peers.given import LIMIT, Given, Store, serve


class _Embedder:
    """The vectors that were given, or the model's."""

    def __init__(self, given: Given) -> None:
        self._vector = given.embedding()

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        vector: list[float] = self._vector(text).tolist()
        return vector

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text) for text in texts]


class Mem0(Store):
    """One message for each memory."""

    def __init__(self, given: Given) -> None:
        # Read when mem0 is imported; the key is never used, for nothing asks a model.
        os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(given.directory), "OPENAI_API_KEY": "unused"}
        from mem0 import Memory  # type: ignore[import-not-found, unused-ignore]

        place = {"path": str(given.directory / "qdrant"), "on_disk": True, "collection_name": "memories"}
        store = {"provider": "qdrant", "config": place | {"embedding_model_dims": given.vectors.shape[1]}}
        history = str(given.directory / "history.db")
        self._given = given
        self._memory: Any = Memory.from_config({"vector_store": store, "history_db_path": history})
        self._memory.embedding_model = _Embedder(given)

    def add(self, number: int) -> None:
        """Add a message of one user."""
        self._memory.add(self._given.texts[number], user_id="bench", infer=False)

    def search(self, number: int) -> list[str]:
        """The memories that mem0 ranks first."""
        found = self._memory.search(self._given.queries[number], filters={"user_id": "bench"}, top_k=LIMIT)
        return [each["memory"] for each in found["results"]]


if __name__ == "__main__":
    serve(Mem0)
