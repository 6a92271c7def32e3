"""Owns the SQL of what a repository's host knows of it: items, how far they were read, and webhook deliveries."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import orjson

from holdfast.features.repositories.model import Item, ItemKind, Remark
from holdfast.storage.database import Row, Tx

_PLAIN = (
    "kind",
    "number",
    "title",
    "body",
    "state",
    "author",
    "url",
    "created_at",
    "updated_at",
    "closed_at",
    "merged_at",
)
_COLUMNS = ", ".join((*_PLAIN, "commit_sha", "labels", "remarks", "files"))


def put_items(tx: Tx, repository_id: str, items: Sequence[Item]) -> None:
    """Keep items as they are now."""
    names = (*_PLAIN, "commit_sha", "labels", "remarks", "files")
    changes = ", ".join(f"{name} = excluded.{name}" for name in names if name not in ("kind", "number"))
    tx.many(
        f"INSERT INTO repository_item (repository_id, {_COLUMNS}) "
        f"VALUES (:repository, {', '.join(f':{name}' for name in names)}) "
        f"ON CONFLICT (repository_id, kind, number) DO UPDATE SET {changes}",
        [_values(repository_id, item) for item in items],
    )


def find_item(tx: Tx, repository_id: str, kind: ItemKind, number: str) -> Item | None:
    """One item."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM repository_item "
        "WHERE repository_id = :repository AND kind = :kind AND number = :number",
        {"repository": repository_id, "kind": kind, "number": number},
    )
    return _item(row) if row else None


def numbered(tx: Tx, repository_id: str, number: str) -> list[Item]:
    """The items of that number, of whatever kind."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM repository_item "
        "WHERE repository_id = :repository AND number = :number ORDER BY kind DESC",
        {"repository": repository_id, "number": number},
    )
    return [_item(row) for row in rows]


def page_items(
    tx: Tx, repository_id: str, kind: ItemKind, *, before: tuple[int, str] | None = None, limit: int = 200
) -> list[Item]:
    """Items of a kind, the last changed first, from a position (updated_at, number) on."""
    older = "" if before is None else " AND (updated_at, number) < (:moment, :last)"
    params: dict[str, Any] = {"repository": repository_id, "kind": kind, "limit": limit}
    if before is not None:
        params |= {"moment": before[0], "last": before[1]}
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM repository_item WHERE repository_id = :repository AND kind = :kind{older} "
        "ORDER BY updated_at DESC, number DESC LIMIT :limit",
        params,
    )
    return [_item(row) for row in rows]


def count_items(tx: Tx, repository_id: str) -> int:
    """How many items are kept."""
    row = tx.one("SELECT COUNT(*) AS n FROM repository_item WHERE repository_id = :id", {"id": repository_id})
    return int(row["n"]) if row else 0


def item_cursor(tx: Tx, repository_id: str, kind: ItemKind) -> int | None:
    """Up to which moment the host's items of a kind are known."""
    row = tx.one(
        "SELECT updated_at FROM repository_cursor WHERE repository_id = :repository AND kind = :kind",
        {"repository": repository_id, "kind": kind},
    )
    return int(row["updated_at"]) if row else None


def set_item_cursor(tx: Tx, repository_id: str, kind: ItemKind, updated_at: int) -> None:
    """Remember that moment."""
    tx.execute(
        "INSERT INTO repository_cursor (repository_id, kind, updated_at) VALUES (:repository, :kind, :moment) "
        "ON CONFLICT (repository_id, kind) DO UPDATE SET updated_at = :moment",
        {"repository": repository_id, "kind": kind, "moment": updated_at},
    )


# Webhook deliveries


def take_delivery(tx: Tx, repository_id: str, delivery_id: str, now: int) -> bool:
    """Remember a delivery; False when it was here before."""
    return bool(
        tx.execute(
            "INSERT INTO repository_delivery (repository_id, delivery_id, received_at) "
            "VALUES (:repository, :delivery, :now) ON CONFLICT DO NOTHING",
            {"repository": repository_id, "delivery": delivery_id, "now": now},
        )
    )


def forget_deliveries(tx: Tx, before: int) -> int:
    """Remove deliveries too old to be sent again; how many."""
    return tx.execute("DELETE FROM repository_delivery WHERE received_at < :before", {"before": before})


def _values(repository_id: str, item: Item) -> dict[str, Any]:
    plain = {name: getattr(item, name) for name in _PLAIN}
    texts = {name: value.replace("\0", "") for name, value in plain.items() if isinstance(value, str)}
    return {
        **plain,
        **texts,
        "repository": repository_id,
        "commit_sha": item.commit,
        "labels": _json(list(item.labels)),
        "remarks": _json([asdict(remark) for remark in item.remarks]),
        "files": _json(list(item.files)),
    }


def _item(row: Row) -> Item:
    return Item(
        **{name: row[name] for name in _PLAIN},
        commit=row["commit_sha"],
        labels=tuple(orjson.loads(row["labels"])),
        remarks=tuple(Remark(**remark) for remark in orjson.loads(row["remarks"])),
        files=tuple(orjson.loads(row["files"])),
    )


def _json(value: object) -> str:
    return orjson.dumps(value).decode().replace("\\u0000", "")
