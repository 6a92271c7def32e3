"""Owns the SQL of API keys."""

import json
from collections.abc import Collection, Sequence

from holdfast.core.principal import Principal
from holdfast.features.identity.model import ApiKey
from holdfast.storage.database import Row, Tx

MAX_GENERATIONS = 32
_COLUMNS = (
    "id, organization_id, project_id, name, prefix, scopes, tier, workspace_ids, allow_destructive, catalog_search, "
    "created_by, created_at, expires_at, last_used_at, revoked_at"
)
_BY_HASH = f"SELECT {_COLUMNS} FROM api_key WHERE hash = :hash"


def by_hash(tx: Tx, digest: bytes) -> ApiKey | None:
    """The key with this SHA-256: the hot look-up of every request."""
    row = tx.one(_BY_HASH, {"hash": digest})
    return _key(row) if row else None


def find(tx: Tx, organization_id: str, key_id: str) -> ApiKey | None:
    """The organization's key of this id."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM api_key WHERE id = :id AND organization_id = :organization_id",
        {"id": key_id, "organization_id": organization_id},
    )
    return _key(row) if row else None


def page(tx: Tx, organization_id: str, project_id: str | None, after: str, limit: int) -> list[ApiKey]:
    """Keys in the order they were made, after an id."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM api_key WHERE organization_id = :organization_id AND id > :after "
        "AND (CAST(:project_id AS TEXT) IS NULL OR project_id = :project_id) ORDER BY id LIMIT :limit",
        {"organization_id": organization_id, "project_id": project_id, "after": after, "limit": limit},
    )
    return [_key(row) for row in rows]


def active_named(tx: Tx, organization_id: str, project_id: str | None, name: str) -> list[ApiKey]:
    """Every key of that name in the project (or of the organization) that still works or may work again."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM api_key WHERE organization_id = :organization_id AND name = :name "
        "AND revoked_at IS NULL AND COALESCE(project_id, '') = :project_id ORDER BY id",
        {"organization_id": organization_id, "name": name, "project_id": project_id or ""},
    )
    return [_key(row) for row in rows]


def any_made(tx: Tx, organization_id: str) -> bool:
    """Whether the organization ever had a key; revoked ones count."""
    return bool(page(tx, organization_id, None, "", 1))


def spenders(tx: Tx, principal: Principal) -> Collection[str]:
    """Who spends the same person's budget: the person, every key that they made, and every key that such a key made.

    A key that was made on the server's own machine stands for a person of its own.
    """
    person = _first_maker(tx, principal.organization_id, principal.actor)
    if not person.startswith(("usr_", "key_")):
        return frozenset({person})
    rows = tx.all(
        "WITH RECURSIVE spender (id) AS (SELECT CAST(:person AS TEXT) UNION SELECT api_key.id FROM api_key "
        "JOIN spender ON api_key.created_by = spender.id WHERE api_key.organization_id = :organization_id) "
        "SELECT id FROM spender",
        {"person": person, "organization_id": principal.organization_id},
    )
    return frozenset({principal.actor, *(str(row["id"]) for row in rows)})


def person_behind(tx: Tx, organization_id: str, key_id: str) -> str | None:
    """The person who made a key, or made the key that made it; None for one of the server's own machine."""
    maker = _first_maker(tx, organization_id, key_id)
    return maker if maker.startswith("usr_") else None


def _first_maker(tx: Tx, organization_id: str, actor: str) -> str:
    for _ in range(MAX_GENERATIONS):
        made = find(tx, organization_id, actor) if actor.startswith("key_") else None
        if made is None or not made.created_by.startswith(("usr_", "key_")):
            break
        actor = made.created_by
    return actor


def made_by(tx: Tx, organization_id: str, user_id: str, now: int) -> list[ApiKey]:
    """The keys that a person made, and that such keys made, which still work."""
    rows = tx.all(
        "WITH RECURSIVE maker (id) AS (SELECT CAST(:user_id AS TEXT) UNION SELECT api_key.id FROM api_key "
        "JOIN maker ON api_key.created_by = maker.id WHERE api_key.organization_id = :organization_id) "
        f"SELECT {_COLUMNS} FROM api_key WHERE organization_id = :organization_id AND id IN (SELECT id FROM maker) "
        "AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now) ORDER BY id",
        {"user_id": user_id, "organization_id": organization_id, "now": now},
    )
    return [_key(row) for row in rows]


def insert(tx: Tx, key: ApiKey, digest: bytes) -> None:
    """Keep a new key by its digest."""
    tx.execute(
        f"INSERT INTO api_key ({_COLUMNS}, hash) VALUES (:id, :organization_id, :project_id, :name, :prefix, :scopes, "
        ":tier, :workspace_ids, :allow_destructive, :catalog_search, :created_by, :created_at, :expires_at, "
        ":last_used_at, :revoked_at, :hash)",
        {
            "id": key.id,
            "organization_id": key.organization_id,
            "project_id": key.project_id,
            "name": key.name,
            "prefix": key.prefix,
            "scopes": ",".join(sorted(key.scopes)),
            "tier": key.tier,
            "workspace_ids": None if key.workspace_ids is None else json.dumps(sorted(key.workspace_ids)),
            "allow_destructive": int(key.allow_destructive),
            "catalog_search": int(key.catalog_search),
            "created_by": key.created_by,
            "created_at": key.created_at,
            "expires_at": key.expires_at,
            "last_used_at": key.last_used_at,
            "revoked_at": key.revoked_at,
            "hash": digest,
        },
    )


def revoke(tx: Tx, key_id: str, now: int) -> None:
    """Stop a key from working."""
    tx.execute("UPDATE api_key SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL", {"now": now, "id": key_id})


def delete(tx: Tx, organization_id: str, key_id: str) -> None:
    """Forget a key; what it used stays counted."""
    tx.execute(
        "DELETE FROM api_key WHERE id = :id AND organization_id = :organization_id",
        {"id": key_id, "organization_id": organization_id},
    )


def update(tx: Tx, key: ApiKey) -> None:
    """Change what a key may do; the secret stays."""
    tx.execute(
        "UPDATE api_key SET name = :name, scopes = :scopes, tier = :tier, allow_destructive = :allow_destructive, "
        "catalog_search = :catalog_search, expires_at = :expires_at WHERE id = :id",
        {
            "id": key.id,
            "name": key.name,
            "scopes": ",".join(sorted(key.scopes)),
            "tier": key.tier,
            "allow_destructive": int(key.allow_destructive),
            "catalog_search": int(key.catalog_search),
            "expires_at": key.expires_at,
        },
    )


def never_used(tx: Tx, ids: Sequence[str]) -> list[ApiKey]:
    """Those of the keys that no moment is noted for."""
    names = {f"id_{number}": id for number, id in enumerate(ids)}
    listed = ", ".join(f":{name}" for name in names)
    rows = tx.all(f"SELECT {_COLUMNS} FROM api_key WHERE last_used_at IS NULL AND id IN ({listed})", names)
    return [_key(row) for row in rows]


def touch(tx: Tx, used: dict[str, int]) -> None:
    """Note when keys were last used."""
    tx.many(
        "UPDATE api_key SET last_used_at = :at WHERE id = :id AND (last_used_at IS NULL OR last_used_at < :at)",
        [{"id": key_id, "at": at} for key_id, at in sorted(used.items())],
    )


def _key(row: Row) -> ApiKey:
    return ApiKey(
        id=row["id"],
        organization_id=row["organization_id"],
        project_id=row["project_id"],
        name=row["name"],
        prefix=row["prefix"],
        scopes=frozenset(row["scopes"].split(",")),
        tier=row["tier"],
        workspace_ids=None if row["workspace_ids"] is None else frozenset(json.loads(row["workspace_ids"])),
        allow_destructive=bool(row["allow_destructive"]),
        catalog_search=bool(row["catalog_search"]),
        created_by=row["created_by"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        last_used_at=row["last_used_at"],
        revoked_at=row["revoked_at"],
    )
