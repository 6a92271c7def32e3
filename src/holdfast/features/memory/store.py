"""Owns the SQL of memories and of their earlier revisions, for both dialects."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast.core.ids import new_id
from holdfast.features.memory.model import Contradiction, Filters, Memory, Revision
from holdfast.features.memory.writing.wording import clean
from holdfast.storage.database import Row, Tx

_FIELDS = (
    "id, workspace_id, slug, title, content, digest, category, tags, status, occurred_at, learned_at, valid_until, "
    "superseded_by, status_note, author, author_name, trust, session_id, chat_id, visibility, source, position, "
    "revision, updated_at, thread"
)
_VALUES = ", ".join(f":{name.strip()}" for name in _FIELDS.split(","))
_REVISION_FIELDS = "memory_id, revision, title, content, category, tags, occurred_at, written_at, editor"
_REVISION_VALUES = ", ".join(f":{name.strip()}" for name in _REVISION_FIELDS.split(","))


def insert(tx: Tx, new: Memory) -> bool:
    """Keep a new memory; False when its slug is taken or a current memory says the same."""
    return tx.execute(f"INSERT INTO memory ({_FIELDS}) VALUES ({_VALUES}) ON CONFLICT DO NOTHING", _params(new)) == 1


def replace(tx: Tx, changed: Memory) -> None:
    """Write every field of a memory that exists."""
    assignments = ", ".join(f"{name.strip()} = :{name.strip()}" for name in _FIELDS.split(",")[2:])
    tx.execute(f"UPDATE memory SET {assignments} WHERE workspace_id = :workspace_id AND id = :id", _params(changed))


def find(tx: Tx, workspace_id: str, key: str) -> Memory | None:
    """The memory of this id or slug."""
    row = tx.one(
        f"SELECT {_FIELDS} FROM memory WHERE workspace_id = :workspace_id AND (id = :key OR slug = :key) "
        "ORDER BY CASE WHEN id = :key THEN 0 ELSE 1 END LIMIT 1",
        {"workspace_id": workspace_id, "key": key},
    )
    return _memory(row) if row else None


def find_current(tx: Tx, workspace_id: str, digest: str) -> Memory | None:
    """The current memory that says exactly this."""
    row = tx.one(
        f"SELECT {_FIELDS} FROM memory WHERE workspace_id = :workspace_id AND digest = :digest AND status = 'current'",
        {"workspace_id": workspace_id, "digest": digest},
    )
    return _memory(row) if row else None


def of_chat(tx: Tx, workspace_id: str, chat_id: str) -> list[Memory]:
    """Every memory that is a chat's alone."""
    rows = tx.all(
        f"SELECT {_FIELDS} FROM memory WHERE workspace_id = :workspace_id AND chat_id = :id AND visibility = 'chat'",
        _key(workspace_id, chat_id),
    )
    return [_memory(row) for row in rows]


def lock(tx: Tx, workspace_id: str, key: str) -> Memory | None:
    """The memory of this id or slug, kept from other writers until this transaction ends."""
    found = find(tx, workspace_id, key)
    if found is None:
        return None
    tx.execute("UPDATE memory SET revision = revision WHERE id = :id", {"id": found.id})
    return find(tx, workspace_id, found.id)


def delete(tx: Tx, workspace_id: str, memory_id: str) -> None:
    """Remove a memory and what it said before."""
    tx.execute("DELETE FROM memory WHERE workspace_id = :workspace_id AND id = :id", _key(workspace_id, memory_id))


def in_session(tx: Tx, workspace_id: str, session_id: str) -> int:
    """How many memories a session has made."""
    row = tx.one(
        "SELECT COUNT(*) AS number FROM memory WHERE workspace_id = :workspace_id AND session_id = :id",
        _key(workspace_id, session_id),
    )
    return int(row["number"]) if row else 0


def find_thread(tx: Tx, memory: Memory, begins_by: int, ends_by: int) -> str | None:
    """The conversation of the memory's author that was going on between these moments, the latest."""
    row = tx.one(
        "SELECT id FROM memory_thread WHERE workspace_id = :workspace_id AND author = :author AND chat_id = :chat_id "
        "AND ended_at >= :begins_by AND began_at <= :ends_by ORDER BY ended_at DESC LIMIT 1",
        _thread_key(memory) | {"begins_by": begins_by, "ends_by": ends_by},
    )
    return str(row["id"]) if row else None


def begin_thread(tx: Tx, memory: Memory, id: str, at: int) -> None:
    """Keep a conversation that begins with a memory."""
    tx.execute(
        "INSERT INTO memory_thread (id, workspace_id, author, chat_id, began_at, ended_at, length) "
        "VALUES (:id, :workspace_id, :author, :chat_id, :at, :at, 1)",
        _thread_key(memory) | {"id": id, "at": at},
    )


def continue_thread(tx: Tx, id: str, at: int) -> int:
    """Let a conversation reach as far as a moment; the place of what was said then in it."""
    row = tx.one(
        "UPDATE memory_thread SET length = length + 1, "
        "began_at = CASE WHEN began_at > :at THEN :at ELSE began_at END, "
        "ended_at = CASE WHEN ended_at < :at THEN :at ELSE ended_at END WHERE id = :id RETURNING length",
        {"id": id, "at": at},
    )
    return int(row["length"]) - 1 if row else 0


def by_ids(tx: Tx, workspace_id: str, ids: Sequence[str]) -> dict[str, Memory]:
    """The memories of these ids that are in the workspace."""
    if not ids:
        return {}
    names = {f"id_{number}": id for number, id in enumerate(ids)}
    listed = ", ".join(f":{name}" for name in names)
    rows = tx.all(
        f"SELECT {_FIELDS} FROM memory WHERE workspace_id = :workspace_id AND id IN ({listed})",
        {"workspace_id": workspace_id, **names},
    )
    return {row["id"]: _memory(row) for row in rows}


def page(tx: Tx, workspace_id: str, filters: Filters, before: tuple[int, str] | None, limit: int) -> list[Memory]:
    """Up to `limit` memories, the newest learned first, after the position of the page before."""
    terms, params = _where(filters)
    params |= {"workspace_id": workspace_id, "limit": limit}
    if before is not None:
        terms.append("(learned_at < :before_at OR (learned_at = :before_at AND id < :before_id))")
        params |= {"before_at": before[0], "before_id": before[1]}
    rows = tx.all(
        f"SELECT {_FIELDS} FROM memory WHERE {' AND '.join(['workspace_id = :workspace_id', *terms])} "
        "ORDER BY learned_at DESC, id DESC LIMIT :limit",
        params,
    )
    return [_memory(row) for row in rows]


def facets(tx: Tx, workspace_id: str, filters: Filters) -> tuple[dict[str, int], dict[str, int]]:
    """How many of the memories that fit have each category, and how many have each tag."""
    terms, params = _where(filters)
    where = " AND ".join(["workspace_id = :workspace_id", *terms])
    params["workspace_id"] = workspace_id
    # Rows alike are counted by the store, in one walk; there are few different lists of tags.
    rows = tx.all(
        f"SELECT category, tags, COUNT(*) AS number FROM memory WHERE {where} GROUP BY category, tags", params
    )
    categories: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    for row in rows:
        categories[row["category"]] += row["number"]
        for tag in json.loads(row["tags"]):
            tags[tag] += row["number"]
    return dict(categories), dict(tags)


def replaced_by(tx: Tx, workspace_id: str, memory_id: str) -> list[Memory]:
    """The memories whose place this one took, the last learned first."""
    rows = tx.all(
        f"SELECT {_FIELDS} FROM memory WHERE workspace_id = :workspace_id AND superseded_by = :id "
        "ORDER BY learned_at DESC, id DESC LIMIT 20",
        _key(workspace_id, memory_id),
    )
    return [_memory(row) for row in rows]


def after_slug(tx: Tx, workspace_id: str, slug: str, limit: int) -> list[Memory]:
    """Up to `limit` memories of every status in the order of their slugs, for exports that do not depend on ids."""
    rows = tx.all(
        f"SELECT {_FIELDS} FROM memory WHERE workspace_id = :workspace_id AND slug > :slug ORDER BY slug LIMIT :limit",
        {"workspace_id": workspace_id, "slug": slug, "limit": limit},
    )
    return [_memory(row) for row in rows]


def slugs_starting(tx: Tx, workspace_id: str, prefix: str, limit: int) -> list[str]:
    """Slugs of current memories that begin like this, for completion."""
    # U+FFFF sorts after every character of a slug: a range that the index serves, where LIKE would scan on PostgreSQL.
    rows = tx.all(
        "SELECT slug FROM memory WHERE workspace_id = :workspace_id AND slug >= :low AND slug < :high "
        "AND status = 'current' AND visibility = 'workspace' ORDER BY slug LIMIT :limit",
        {"workspace_id": workspace_id, "low": clean(prefix), "high": clean(prefix) + "\uffff", "limit": limit},
    )
    return [row["slug"] for row in rows]


def insert_revisions(tx: Tx, revisions: Iterable[Revision]) -> None:
    """Keep what memories said before."""
    rows = [
        {name: getattr(revision, name) for name in Revision.__slots__} | {"tags": _tags(revision.tags)}
        for revision in revisions
    ]
    if rows:
        tx.many(f"INSERT INTO memory_revision ({_REVISION_FIELDS}) VALUES ({_REVISION_VALUES})", rows)


def revisions(tx: Tx, memory_ids: Sequence[str]) -> dict[str, list[Revision]]:
    """What each memory said before its last edit, oldest first."""
    found: dict[str, list[Revision]] = {}
    if not memory_ids:
        return found
    names = {f"id_{number}": id for number, id in enumerate(memory_ids)}
    listed = ", ".join(f":{name}" for name in names)
    for row in tx.all(
        f"SELECT {_REVISION_FIELDS} FROM memory_revision WHERE memory_id IN ({listed}) ORDER BY memory_id, revision",
        names,
    ):
        found.setdefault(row["memory_id"], []).append(_revision(row))
    return found


def drop_contradictions(tx: Tx, memory: Memory) -> None:
    """Forget those that wait for somebody and are about what a memory no longer says."""
    tx.execute(
        "DELETE FROM memory_contradiction WHERE workspace_id = :workspace_id AND settled_at IS NULL "
        "AND (memory_id = :id OR other_id = :id)",
        _key(memory.workspace_id, memory.id),
    )


def note_contradictions(tx: Tx, made: Memory, found: Sequence[Contradiction], at: int) -> int:
    """Keep what was found of a memory; what was settled stays so. How many are new."""
    return sum(
        tx.execute(
            "INSERT INTO memory_contradiction (id, workspace_id, memory_id, other_id, reason, found_at) "
            "VALUES (:id, :workspace_id, :memory_id, :other_id, :reason, :found_at) ON CONFLICT DO NOTHING",
            {
                "id": new_id("con"),
                "workspace_id": made.workspace_id,
                "memory_id": made.id,
                "other_id": each.memory.id,
                "reason": each.reason,
                "found_at": at,
            },
        )
        for each in found
    )


def _where(filters: Filters) -> tuple[list[str], dict[str, Any]]:
    terms: list[str] = []
    params: dict[str, Any] = {}
    for name in ("category", "author", "trust", "session_id", "chat_id"):
        value = getattr(filters, name)
        if value is not None:
            terms.append(f"{name} = :{name}")
            params[name] = clean(value)
    if filters.seen_from is not None:
        terms.append("(visibility = 'workspace' OR chat_id = :seen_from)")
        params["seen_from"] = clean(filters.seen_from)
    elif filters.visibility is not None:
        terms.append("visibility = :visibility")
        params["visibility"] = filters.visibility
    if filters.tag is not None:
        # Tags are a JSON list of strings: a tag is found by its quoted form.
        terms.append("(' ' || tags) LIKE :tag ESCAPE '\\'")
        params["tag"] = f"%{_like(json.dumps(clean(filters.tag), ensure_ascii=False))}%"
    if filters.since is not None:
        terms.append("learned_at >= :since")
        params["since"] = filters.since
    if filters.until is not None:
        terms.append("learned_at < :until")
        params["until"] = filters.until
    if filters.as_of is not None:
        terms.append(
            "(learned_at <= :as_of OR occurred_at <= :as_of) AND (valid_until IS NULL OR valid_until > :as_of)"
        )
        params["as_of"] = filters.as_of
    elif filters.status is not None:
        terms.append("status = :status")
        params["status"] = filters.status
    return terms, params


def _thread_key(memory: Memory) -> dict[str, Any]:
    own_chat = memory.chat_id if memory.visibility == "chat" else None
    return {"workspace_id": memory.workspace_id, "author": memory.author, "chat_id": own_chat or ""}


def _key(workspace_id: str, id: str) -> dict[str, str]:
    return {"workspace_id": workspace_id, "id": id}


def _like(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _tags(tags: Sequence[str]) -> str:
    return json.dumps(list(tags), ensure_ascii=False)


def _params(memory: Memory) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in Memory.__slots__} | {"tags": _tags(memory.tags)}


def _memory(row: Row) -> Memory:
    values = {name: row[name] for name in Memory.__slots__}
    return Memory(**(values | {"tags": tuple(json.loads(row["tags"]))}))


def _revision(row: Row) -> Revision:
    values = {name: row[name] for name in Revision.__slots__}
    return Revision(**(values | {"tags": tuple(json.loads(row["tags"]))}))
