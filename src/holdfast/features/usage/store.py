"""Owns the usage tables: buckets, counters and the log of calls, on both dialects."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.principal import Principal
from holdfast.features.usage.model import Grouping, Limit, UsageEntry, UsageFilter, UsageKind, UsageRow, day_of
from holdfast.storage.database import Row, Tx

_COLUMN_OF: dict[Grouping, str] = {
    "week": "week",
    "day": "day",
    "actor": "actor",
    "project": "project_id",
    "workspace": "workspace_id",
    "source": "source",
    "model": "model",
    "kind": "kind",
}
# Small limits are counted one by one; of large ones a busy process may take this part of what is left to spare.
SPARE_FROM = 600
SPARE_PART = 64
SKEW_MILLIS = 5000
_EXACT = ("actor", "project_id", "workspace_id", "source", "model", "kind")


@dataclass(frozen=True, slots=True)
class Want:
    """What a process asks of a bucket. `elapsed_at_most`: the time since its last look, by its steady clock."""

    key: str
    limit: Limit
    need: int
    spare: int
    given_back: int
    now: int
    elapsed_at_most: float


@dataclass(frozen=True, slots=True)
class Grant:
    """What a bucket gave, and what is left in it."""

    granted: int
    left: float


def lease(tx: Tx, want: Want) -> Grant:
    """Take what is needed from a bucket (as much of it as there is), and some to spare while there is plenty."""
    limit = want.limit
    tokens, refilled_at = _refilled(want, _locked(tx, want))
    available = math.floor(tokens + 1e-9)
    granted = min(want.need, available)
    if limit.count >= SPARE_FROM:
        granted += min(want.spare, (available - granted) // SPARE_PART)
    left = tokens - granted
    full_at = want.now + math.ceil((limit.count - left) / limit.count * limit.per_seconds * 1000)
    tx.execute(
        "UPDATE limit_bucket SET tokens = :tokens, refilled_at = :refilled_at, full_at = :full_at WHERE key = :key",
        {"key": want.key, "tokens": left, "refilled_at": refilled_at, "full_at": full_at},
    )
    return Grant(granted, left)


def _locked(tx: Tx, want: Want) -> Row:
    """The bucket's row, held until the transaction ends; a new bucket is full."""
    tx.execute(
        "INSERT INTO limit_bucket (key, tokens, refilled_at, full_at) VALUES (:key, :tokens, :now, :now) "
        "ON CONFLICT (key) DO NOTHING",
        {"key": want.key, "tokens": float(want.limit.count), "now": want.now},
    )
    suffix = " FOR UPDATE" if tx.dialect == "postgresql" else ""
    row = tx.one(f"SELECT tokens, refilled_at FROM limit_bucket WHERE key = :key{suffix}", {"key": want.key})
    assert row is not None
    return row


def _refilled(want: Want, row: Row) -> tuple[float, int]:
    """The tokens with what time has added, and the moment up to which it has.

    A clock that is a little behind (another replica's) adds nothing until it has caught up; one that was set back
    starts anew from there; one that was set forward adds no more than the steady clock allows.
    """
    limit, refilled_at = want.limit, int(row["refilled_at"])
    elapsed = max(0.0, (want.now - refilled_at) / 1000)
    added = min(elapsed, want.elapsed_at_most) * limit.count / limit.per_seconds
    tokens = min(float(limit.count), float(row["tokens"]) + added + want.given_back)
    return tokens, refilled_at if want.now < refilled_at <= want.now + SKEW_MILLIS else want.now


def take_from_window(tx: Tx, key: str, limit: Limit, now: int) -> tuple[int, int]:
    """Take one from a window, a new one if the last has ended; what is left (-1: nothing was), and when it ends."""
    length = round(limit.per_seconds * 1000)
    name = f"window {key}"
    tx.execute(
        "INSERT INTO limit_bucket (key, tokens, refilled_at, full_at) VALUES (:key, :tokens, :now, :now) "
        "ON CONFLICT (key) DO NOTHING",
        {"key": name, "tokens": float(limit.count), "now": now},
    )
    suffix = " FOR UPDATE" if tx.dialect == "postgresql" else ""
    row = tx.one(f"SELECT tokens, refilled_at FROM limit_bucket WHERE key = :key{suffix}", {"key": name})
    assert row is not None
    began_at, left = int(row["refilled_at"]), min(int(row["tokens"]), limit.count)
    # A replica whose clock is a little behind is still in the window; a clock that was set back begins anew.
    if not began_at - SKEW_MILLIS <= now < began_at + length:
        began_at, left = now, limit.count
    left = max(-1, left - 1)
    tx.execute(
        "UPDATE limit_bucket SET tokens = :tokens, refilled_at = :began_at, full_at = :ends_at WHERE key = :key",
        {"key": name, "tokens": float(max(0, left)), "began_at": began_at, "ends_at": began_at + length},
    )
    return left, began_at + length


def take_from_last(tx: Tx, key: str, limit: Limit, now: int) -> tuple[int, int]:
    """Take one unless as many were taken in the stretch of time that ends now; what is left (-1: nothing was), and when
    the oldest that counts no longer does."""
    length, name = round(limit.per_seconds * 1000), f"calls {key}"
    # The row holds others up until this has counted; it is trimmed as buckets are.
    tx.execute(
        "INSERT INTO limit_bucket (key, tokens, refilled_at, full_at) VALUES (:key, 0, :now, :full_at) "
        "ON CONFLICT (key) DO UPDATE SET full_at = excluded.full_at",
        {"key": name, "now": now, "full_at": now + length},
    )
    # What a clock that was set back has left in the future would count for ever.
    tx.execute(
        "DELETE FROM limit_call WHERE key = :key AND (at <= :before OR at > :after)",
        {"key": key, "before": now - length, "after": now + SKEW_MILLIS},
    )
    row = tx.one("SELECT count(*) AS taken, min(at) AS oldest FROM limit_call WHERE key = :key", {"key": key})
    assert row is not None
    taken, oldest = int(row["taken"]), now if row["oldest"] is None else int(row["oldest"])
    if taken < limit.count:
        tx.execute(
            "INSERT INTO limit_call (key, at, number) SELECT :key, :now, coalesce(max(number), 0) + 1 FROM limit_call "
            "WHERE key = :key AND at = :now",
            {"key": key, "now": now},
        )
    return max(-1, limit.count - taken - 1), oldest + length


def trim_buckets(tx: Tx, before: int) -> int:
    """Forget buckets that have long been full, and calls that long no longer count."""
    tx.execute("DELETE FROM limit_call WHERE at < :before", {"before": before})
    return tx.execute("DELETE FROM limit_bucket WHERE full_at < :before", {"before": before})


def add(tx: Tx, counters: Sequence[Mapping[str, Any]]) -> None:
    """Add amounts to counters."""
    tx.many(
        "INSERT INTO usage_counter (organization_id, week, day, actor, project_id, workspace_id, source, model, kind, "
        "amount) VALUES (:organization_id, :week, :day, :actor, :project_id, :workspace_id, :source, :model, :kind, "
        ":amount) ON CONFLICT (organization_id, week, day, actor, project_id, workspace_id, source, model, kind) "
        "DO UPDATE SET amount = usage_counter.amount + excluded.amount",
        counters,
    )


def log(tx: Tx, entries: Sequence[Mapping[str, Any]]) -> None:
    """Keep calls that used a model."""
    tx.many(
        "INSERT INTO usage_log (id, organization_id, at, actor, project_id, workspace_id, source, operation, model, "
        "tokens_in, tokens_out, cost) VALUES (:id, :organization_id, :at, :actor, :project_id, :workspace_id, :source, "
        ":operation, :model, :tokens_in, :tokens_out, :cost)",
        entries,
    )


def total(
    tx: Tx,
    organization_id: str,
    week: int,
    *,
    actors: Collection[str],
    sources: Collection[str],
    kinds: Collection[str],
) -> float:
    """What these actors used in a week, by these ways in, over these kinds."""
    clauses, params = "", {"organization_id": organization_id, "week": week}
    for column, values in (("actor", actors), ("source", sources), ("kind", kinds)):
        names = {f"{column}_{index}": value for index, value in enumerate(sorted(values))}
        clauses += f" AND {column} IN ({', '.join(':' + name for name in names)})"
        params |= names
    row = tx.one(
        "SELECT SUM(amount) AS amount FROM usage_counter WHERE organization_id = :organization_id AND week = :week"
        + clauses,
        params,
    )
    return float(row["amount"] or 0) if row else 0.0


def of_actors(tx: Tx, organization_id: str, actors: Collection[str], week: int) -> dict[UsageKind, float]:
    """What these actors used since a week began, by kind."""
    names = {f"actor_{index}": actor for index, actor in enumerate(sorted(actors))}
    if not names:
        return {}
    rows = tx.all(
        "SELECT kind, SUM(amount) AS amount FROM usage_counter WHERE organization_id = :organization_id "
        f"AND week >= :week AND actor IN ({', '.join(':' + name for name in names)}) GROUP BY kind",
        {"organization_id": organization_id, "week": week, **names},
    )
    return {row["kind"]: float(row["amount"]) for row in rows}


def report(
    tx: Tx, principal: Principal, wanted: UsageFilter, grouped: Sequence[Grouping], actors: Collection[str] | None
) -> list[UsageRow]:
    """Sums by the groupings, newest first; of these actors, or of everybody in the principal's reach."""
    columns = [_COLUMN_OF[grouping] for grouping in grouped]
    where, params = _conditions(principal, wanted, actors)
    if wanted.since is not None:
        where, params = f"{where} AND day >= :since", params | {"since": day_of(wanted.since)}
    if wanted.until is not None:
        where, params = f"{where} AND day < :until", params | {"until": wanted.until}
    names = ", ".join(columns)
    rows = tx.all(
        f"SELECT {names}, SUM(amount) AS amount FROM usage_counter WHERE {where} GROUP BY {names} ORDER BY {names}",
        params,
    )
    return [UsageRow(**{name: row[name] for name in columns}, amount=float(row["amount"])) for row in rows]


def entries(
    tx: Tx,
    principal: Principal,
    wanted: UsageFilter,
    before: str | None,
    limit: int,
    actors: Collection[str] | None,
) -> list[UsageEntry]:
    """The newest logged calls, older than the id `before`; of these actors, or of everybody in reach."""
    where, params = _conditions(principal, wanted, actors)
    for clause, name, value in (
        ("at >= :since", "since", wanted.since),
        ("at < :until", "until", wanted.until),
        ("id < :before", "before", before),
    ):
        if value is not None:
            where, params = f"{where} AND {clause}", params | {name: value}
    sql = f"SELECT * FROM usage_log WHERE {where} ORDER BY id DESC LIMIT :limit"
    rows = tx.all(sql, params | {"limit": limit})
    return [UsageEntry(**{name: row[name] for name in UsageEntry.__dataclass_fields__}) for row in rows]


def _conditions(
    principal: Principal, wanted: UsageFilter, actors: Collection[str] | None
) -> tuple[str, dict[str, Any]]:
    """What the principal may see, narrowed by the filter."""
    clauses = ["organization_id = :organization_id"]
    params: dict[str, Any] = {"organization_id": principal.organization_id}
    for name in _EXACT:
        if (value := getattr(wanted, name)) is not None:
            clauses.append(_is(name))
            params[name] = value
    if actors is not None:
        names = {f"actor_{index}": value for index, value in enumerate(sorted(actors))}
        clauses.append(f"actor IN ({', '.join(':' + name for name in names) or 'NULL'})")
        params |= names
        # What somebody used themselves is theirs wherever it was.
        return " AND ".join(clauses), params
    if principal.project_id is not None:
        clauses.append("project_id = :own_project")
        params["own_project"] = principal.project_id
    if principal.workspace_ids is not None:
        names = {f"workspace_{index}": value for index, value in enumerate(sorted(principal.workspace_ids))}
        clauses.append(f"workspace_id IN ({', '.join(':' + name for name in names) or 'NULL'})")
        params |= names
    return " AND ".join(clauses), params


def _is(name: str) -> str:
    """What a column has to be; projects and workspaces are also known by their slugs, as long as they are there."""
    table = {"project_id": "project", "workspace_id": "workspace"}.get(name)
    if table is None:
        return f"{name} = :{name}"
    called = f"SELECT id FROM {table} WHERE organization_id = :organization_id AND slug = :{name}"
    return f"({name} = :{name} OR {name} IN ({called}))"
