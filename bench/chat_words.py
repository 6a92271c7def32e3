"""Measures finding messages of chats by their words: on both stores, beside reading all of them as a scan does.

Most messages are in one workspace, a tenth in another. The store's own time for a page of the newest is counted, in
elapsed milliseconds on PostgreSQL, which is another process, and in processor time on SQLite.
"""

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.report import Figure, finish, options
from holdfast.features.chat import store
from holdfast.features.chat.finding import store as finding
from holdfast.features.chat.finding.words import wanted
from holdfast.features.chat.model import Chat, ChatMessage
from holdfast.storage.database import Database, Tx
from holdfast.storage.postgresql import PostgresDatabase
from holdfast.storage.schema import migrate
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.stores.postgres import PrivatePostgres

IN_A_CHAT = 20
WORDS = 45
VOCABULARY = 30_000
BIG, SMALL = "ws_" + "a" * 32, "ws_" + "b" * 32
QUERIES = {
    "a word of few": "heron",
    "a word of every message": "deploy",
    "two words, one of them everywhere": "deploy heron",
    "the beginning of many words": "w1",
    "one letter": "d",
    "a word that nobody said": "giraffe",
}
LIMIT_MS = 25.0


async def fill(database: Database, messages: int) -> float:
    """Chats with messages of usual length; milliseconds of processor time for each message."""
    chance = random.Random(7)
    began = time.process_time()

    def work(tx: Tx, begin: int) -> None:
        for number in range(begin, min(begin + 2_000, messages), IN_A_CHAT):
            workspace_id = SMALL if number // IN_A_CHAT % 10 == 0 else BIG
            chat = Chat(workspace_id, f"c{number}", f"Question {number}", "default", "usr_1", "Ada", number, number)
            store.insert(tx, chat)
            for at in range(number, number + IN_A_CHAT):
                words = [f"w{int(chance.paretovariate(0.6)) % VOCABULARY}" for _ in range(WORDS)]
                said = " ".join(["Deploy", *words, *(["heron"] if at % 1_000 < 2 else [])])
                message = {"role": ("user", "assistant")[at % 2], "content": said}
                store.insert_message(
                    tx,
                    workspace_id,
                    ChatMessage(f"msg_{at}", chat.id, at, None, f"{at}", message["role"], message, "usr_1", at),
                )

    for begin in range(0, messages, 2_000):
        await database.write(lambda tx, begin=begin: work(tx, begin))  # type: ignore[misc]
    return (time.process_time() - began) * 1000 / messages


async def _found(database: Database, workspace_id: str, text: str, clock: Callable[[], float], times: int) -> float:
    """Median milliseconds for the first page."""

    def work(tx: Tx) -> float:
        began = clock()
        finding.search(tx, [workspace_id], wanted(text), None, 31)
        return (clock() - began) * 1000

    await database.read(work)
    return statistics.median([await database.read(work) for _ in range(times)])


async def _scanned(database: Database, text: str) -> float:
    """What reading every message takes, as it was done before."""

    def work(tx: Tx) -> float:
        began = time.thread_time()
        tx.all(
            "SELECT m.id FROM chat_message m JOIN chat c ON c.workspace_id = m.workspace_id AND c.id = m.chat_id "
            "WHERE m.workspace_id = :id AND (lower(m.message) LIKE :text OR lower(c.title) LIKE :text) "
            "ORDER BY m.created_at DESC LIMIT 31",
            {"id": BIG, "text": f"%{text}%"},
        )
        return (time.thread_time() - began) * 1000

    return await database.read(work)


async def _prepared(database: Database) -> None:
    await migrate(database)

    def work(tx: Tx) -> None:
        tx.execute("INSERT INTO organization (id, name, created_at) VALUES ('org_1', 'One', 0)")
        tx.execute(
            "INSERT INTO project (id, organization_id, slug, name, created_at) "
            "VALUES ('proj_1', 'org_1', 'one', 'One', 0)"
        )
        for id in (BIG, SMALL):
            tx.execute(
                "INSERT INTO workspace (id, project_id, organization_id, slug, name, created_at) "
                "VALUES (:id, 'proj_1', 'org_1', :id, :id, 0)",
                {"id": id},
            )

    await database.write(work)


async def _measure(database: Database, name: str, messages: int, clock: Callable[[], float]) -> list[Figure]:
    await _prepared(database)
    made = await fill(database, messages)
    figures = [Figure(f"{name}: keeping a message", made, "ms CPU")]
    if name == "postgresql":
        await database.write(lambda tx: tx.execute("ANALYZE"))
    for what, text in QUERIES.items():
        took = await _found(database, BIG, text, clock, 9)
        figures.append(Figure(f"{name}: {what}", took, "ms", LIMIT_MS, "lower"))
    figures.append(Figure(f"{name}: few, small workspace", await _found(database, SMALL, "heron", clock, 9), "ms"))
    if name == "sqlite":
        figures.append(Figure("sqlite: a scan for a word of few", await _scanned(database, "heron"), "ms"))
    return figures


async def _both(messages: int) -> list[Figure]:
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as place:
        embedded = SqliteDatabase(Path(place) / "holdfast.db")
        try:
            figures += await _measure(embedded, "sqlite", messages, time.thread_time)
        finally:
            await embedded.close()
        figures.append(Figure("sqlite: the whole file", (Path(place) / "holdfast.db").stat().st_size / 1e6, "MB"))
    server = PrivatePostgres()
    try:
        external = PostgresDatabase(server.url(server.create()))
        try:
            figures += await _measure(external, "postgresql", messages, time.perf_counter)
        finally:
            await external.close()
    finally:
        server.stop()
    return figures


def main() -> None:
    """Measure and tell."""
    parser = options(__doc__ or "")
    parser.add_argument("--messages", type=int, default=100_000)
    chosen = parser.parse_args()
    finish(asyncio.run(_both(chosen.messages)), as_json=chosen.json)


if __name__ == "__main__":
    main()
