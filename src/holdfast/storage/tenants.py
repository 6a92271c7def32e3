"""Owns the rule that rows which refer to each other belong to one tenant, as checked in a store from elsewhere."""

from collections import defaultdict
from itertools import combinations
from typing import NamedTuple

from holdfast.storage.database import Tx

_TENANT = ("organization_id", "workspace_id")
_POSTGRESQL_KEYS = """
    SELECT k.conname AS name, k.conrelid::regclass::text AS child, k.confrelid::regclass::text AS parent,
        (SELECT attname FROM pg_attribute WHERE attrelid = k.conrelid AND attnum = c.child)::text AS child_column,
        (SELECT attname FROM pg_attribute WHERE attrelid = k.confrelid AND attnum = c.parent)::text AS parent_column
    FROM pg_constraint k, unnest(k.conkey, k.confkey) AS c(child, parent)
    WHERE k.contype = 'f' AND k.connamespace = 'public'::regnamespace ORDER BY 1, 2
"""
_POSTGRESQL_COLUMNS = """
    SELECT table_name AS "table", column_name AS "column" FROM information_schema.columns WHERE table_schema = 'public'
"""


class _Reference(NamedTuple):
    parent: str
    columns: tuple[tuple[str, str], ...]
    """The child's column and the parent's, for each part of the key."""


def crossing(tx: Tx) -> str | None:
    """A table with a row that refers to another tenant's, in words; None where there is none."""
    columns, references = _sqlite(tx) if tx.dialect == "sqlite" else _postgresql(tx)
    for child, found in sorted(references.items()):
        for reference in found:
            shared = [name for name in _TENANT if name in columns[child] and name in columns[reference.parent]]
            wrong = " OR ".join(f"c.{name} <> p.{name}" for name in shared)
            joined = f'FROM "{child}" c JOIN "{reference.parent}" p ON {_on(reference, "p")}'
            if shared and tx.one(f"SELECT 1 AS wrong {joined} WHERE {wrong} LIMIT 1") is not None:
                return f"a row of {child} belongs to another tenant than its {reference.parent}"
        for one, other in combinations(found, 2):
            shared = [name for name in _TENANT if name in columns[one.parent] and name in columns[other.parent]]
            wrong = " OR ".join(f"p.{name} <> q.{name}" for name in shared)
            joined = (
                f'FROM "{child}" c JOIN "{one.parent}" p ON {_on(one, "p")} '
                f'JOIN "{other.parent}" q ON {_on(other, "q")}'
            )
            if shared and tx.one(f"SELECT 1 AS wrong {joined} WHERE {wrong} LIMIT 1") is not None:
                return f"a row of {child} joins a {one.parent} and a {other.parent} of different tenants"
    return None


def _on(reference: _Reference, alias: str) -> str:
    return " AND ".join(f'c."{child}" = {alias}."{parent}"' for child, parent in reference.columns)


_Found = tuple[dict[str, set[str]], dict[str, list[_Reference]]]


def _sqlite(tx: Tx) -> _Found:
    columns: dict[str, set[str]] = {}
    references: dict[str, list[_Reference]] = {}
    for row in tx.all("SELECT name FROM sqlite_master WHERE type = 'table'"):
        name = str(row["name"])
        columns[name] = {str(each["name"]) for each in tx.all(f'PRAGMA table_info("{name}")')}
        keys: dict[tuple[int, str], list[tuple[str, str]]] = defaultdict(list)
        for each in tx.all(f'PRAGMA foreign_key_list("{name}")'):
            keys[int(each["id"]), str(each["table"])].append((str(each["from"]), str(each["to"])))
        references[name] = [_Reference(parent, tuple(pairs)) for (_, parent), pairs in keys.items()]
    return columns, references


def _postgresql(tx: Tx) -> _Found:
    columns: dict[str, set[str]] = defaultdict(set)
    for row in tx.all(_POSTGRESQL_COLUMNS):
        columns[str(row["table"])].add(str(row["column"]))
    keys: dict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
    for row in tx.all(_POSTGRESQL_KEYS):
        keys[row["child"], row["name"], row["parent"]].append((row["child_column"], row["parent_column"]))
    references: dict[str, list[_Reference]] = defaultdict(list)
    for (child, _, parent), pairs in keys.items():
        references[child].append(_Reference(parent, tuple(pairs)))
    return columns, references
