"""Transactions behave the same on both stores."""

from holdfast.storage.database import Database, Tx


async def test_what_was_written_is_read_back(database: Database) -> None:
    def write(tx: Tx) -> None:
        tx.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
        tx.execute("INSERT INTO note (id, text) VALUES (:id, :text)", {"id": 1, "text": "100% kept"})

    await database.write(write)
    row = await database.read(lambda tx: tx.one("SELECT text FROM note WHERE id = :id", {"id": 1}))
    assert row is not None and row["text"] == "100% kept"
