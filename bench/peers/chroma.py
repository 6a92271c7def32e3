"""chromadb, persistent, one collection; vectors are given, or the model's."""

from typing import Any

from bench.peers.given import LIMIT, Given, Store, serve


class Chroma(Store):
    """One document for each memory."""

    def __init__(self, given: Given) -> None:
        import chromadb  # type: ignore[import-not-found, unused-ignore]

        settings = chromadb.Settings(anonymized_telemetry=False)
        self._given, self._vector = given, given.embedding()
        self._client: Any = chromadb.PersistentClient(str(given.directory / "chroma"), settings)
        self._collection: Any = self._client.create_collection("memories", metadata={"hnsw:space": "cosine"})

    def add(self, number: int) -> None:
        """Add a document with its vector."""
        vector = self._vector(self._given.texts[number])
        self._collection.add(ids=[f"m{number}"], documents=[self._given.texts[number]], embeddings=[vector])

    def search(self, number: int) -> list[str]:
        """The documents of the nearest vectors."""
        found = self._collection.query(query_embeddings=[self._vector(self._given.queries[number])], n_results=LIMIT)
        return list(found["documents"][0])


if __name__ == "__main__":
    serve(Chroma)
