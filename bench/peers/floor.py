"""What the machine allows: one SQLite row and commit for each memory, and exact comparison in numpy. No words, no
tenants, no checks; durable as Holdfast is."""

import numpy as np

from bench.peers.given import LIMIT, Given, Store, serve
from holdfast.storage.sqlite import connect


class Floor(Store):
    """One table and one matrix."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._count = 0
        self._matrix = np.zeros_like(given.vectors)
        self._connection = connect(given.directory / "floor.db")
        self._connection.execute("CREATE TABLE memory (id INTEGER PRIMARY KEY, text TEXT, vector BLOB)")

    def add(self, number: int) -> None:
        """Insert and commit."""
        vector = self._given.vectors[number]
        row = (number, self._given.texts[number], vector.tobytes())
        self._connection.execute("INSERT INTO memory VALUES (?, ?, ?)", row)
        self._matrix[self._count] = vector
        self._count += 1

    def search(self, number: int) -> list[str]:
        """The rows of the nearest vectors."""
        best = np.argsort(-(self._matrix[: self._count] @ self._given.asked[number]))[:LIMIT]
        select = "SELECT text FROM memory WHERE id = ?"
        return [str(self._connection.execute(select, (int(id),)).fetchone()[0]) for id in best]


if __name__ == "__main__":
    serve(Floor)
