"""Owns the event table, and waking replicas up through PostgreSQL."""

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from holdfast.engines.events.model import Event
from holdfast.storage.database import Database, Row, Tx

CHANNEL = "holdfast_event"
PAGE = 1000
WATCH_SECONDS = 0.02
_COLUMNS = "number, at, origin, topic, workspace_id, organization_id, payload"


def insert(tx: Tx, event: Event, origin: str) -> int:
    """Leave an event for other processes; its number."""
    row = tx.one(
        "INSERT INTO event (at, origin, topic, workspace_id, organization_id, payload) "
        "VALUES (:at, :origin, :topic, :workspace_id, :organization_id, :payload) RETURNING number",
        {
            "at": event.at,
            "origin": origin,
            "topic": event.topic,
            "workspace_id": event.workspace_id,
            "organization_id": event.organization_id,
            "payload": encode(event.payload),
        },
    )
    assert row is not None
    return int(row["number"])


def encode(payload: Mapping[str, Any]) -> str:
    """The payload as text."""
    return json.dumps(payload, separators=(",", ":"))


def decode(row: Row) -> Event:
    """The event in a row."""
    return Event(
        row["topic"],
        json.loads(row["payload"]),
        row["workspace_id"],
        int(row["at"]),
        int(row["number"]),
        row["organization_id"],
    )


def newest(tx: Tx) -> int:
    """The number of the newest event."""
    row = tx.one("SELECT MAX(number) AS number FROM event")
    return int(row["number"] or 0) if row else 0


def after(tx: Tx, number: int) -> list[Row]:
    """Events that came after a number."""
    sql = f"SELECT {_COLUMNS} FROM event WHERE number > :number ORDER BY number LIMIT :page"
    return tx.all(sql, {"number": number, "page": PAGE})


def after_in(tx: Tx, workspace_ids: Collection[str], organization_id: str, number: int) -> list[Row]:
    """Events of some workspaces, or of their whole organization, that came after a number."""
    names = {f"in_{place}": id for place, id in enumerate(sorted(workspace_ids))}
    within = ", ".join(f":{name}" for name in names) or "NULL"
    return tx.all(
        f"SELECT {_COLUMNS} FROM event WHERE number > :number AND (workspace_id IN ({within}) "
        "OR organization_id = :organization) ORDER BY number LIMIT :page",
        {**names, "number": number, "organization": organization_id, "page": PAGE},
    )


def among(tx: Tx, numbers: Collection[int]) -> list[Row]:
    """Those of these events that exist by now."""
    if not numbers:
        return []
    wanted = ", ".join(str(int(number)) for number in numbers)
    return tx.all(f"SELECT {_COLUMNS} FROM event WHERE number IN ({wanted}) ORDER BY number")


def trim(tx: Tx, before: int) -> int:
    """Forget events older than a moment. The newest stays: followers who heard it go on from there."""
    newest = "(SELECT MAX(number) FROM event)"
    return tx.execute(f"DELETE FROM event WHERE at < :before AND number < {newest}", {"before": before})


async def tell_replicas(database: Database) -> None:
    """Wake the other replicas up: one small notice, whatever the number of events."""
    if database.dialect == "postgresql":
        await database.glance(lambda tx: tx.one("SELECT pg_notify(:channel, '')", {"channel": CHANNEL}))


async def watch(database: Database, wake: Callable[[], None]) -> None:
    """Call `wake` soon after each commit, by whatever process, until cancelled: for workers on one embedded store."""
    seen = database.changes()
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        now = database.changes()
        if now != seen:
            seen = now
            wake()


async def listen(database: Database, wake: Callable[[], None]) -> None:
    """Call `wake` at each notice of a replica, until cancelled. SQLite has none: whoever is not watching polls."""
    if database.dialect == "postgresql":
        # Imported only where it is used: the driver costs start-up time and memory.
        from holdfast.engines.events.listener import listen_forever

        await listen_forever(database, CHANNEL, wake)
