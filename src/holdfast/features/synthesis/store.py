"""Owns the SQL of findings, of what source files say of themselves, and of what the last synthesis was made of."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from holdfast.features.synthesis.model import Finding, FindingKind, FindingOrigin
from holdfast.storage.database import Row, Tx

_COLUMNS = (
    "repository_id, kind, key, title, body, citations, target_type, target_id, digest, written, state, updated_at"
)


def findings(tx: Tx, repository_id: str, kind: FindingKind | None = None) -> list[Finding]:
    """What was found, by kind and key."""
    only = "" if kind is None else " AND kind = :kind"
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM repository_finding WHERE repository_id = :repository{only} ORDER BY kind, key",
        {"repository": repository_id, "kind": kind} if kind is not None else {"repository": repository_id},
    )
    return [_finding(row) for row in rows]


def workspace_findings(tx: Tx, workspace_id: str) -> list[Finding]:
    """What was found in any repository of a workspace and nobody is known to have touched."""
    columns = ", ".join(f"repository_finding.{name}" for name in _COLUMNS.split(", "))
    rows = tx.all(
        f"SELECT {columns} FROM repository_finding JOIN repository ON repository.id = repository_id "
        "WHERE workspace_id = :workspace_id AND repository_finding.state = 'derived'",
        {"workspace_id": workspace_id},
    )
    return [_finding(row) for row in rows]


def put_finding(tx: Tx, finding: Finding) -> None:
    """Keep a finding as it is now."""
    values = {name: getattr(finding, name) for name in _COLUMNS.split(", ") if name != "citations"}
    values["citations"] = orjson.dumps([asdict(citation) for citation in finding.citations]).decode()
    names = _COLUMNS.split(", ")
    changes = ", ".join(f"{name} = excluded.{name}" for name in names if name not in ("repository_id", "kind", "key"))
    tx.execute(
        f"INSERT INTO repository_finding ({_COLUMNS}) VALUES ({', '.join(f':{name}' for name in names)}) "
        f"ON CONFLICT (repository_id, kind, key) DO UPDATE SET {changes}",
        values,
    )


def delete_finding(tx: Tx, finding: Finding) -> None:
    """Forget a finding; what it was written as is another's matter."""
    tx.execute(
        "DELETE FROM repository_finding WHERE repository_id = :repository AND kind = :kind AND key = :key",
        {"repository": finding.repository_id, "kind": finding.kind, "key": finding.key},
    )


def outlines(tx: Tx, repository_id: str) -> dict[str, tuple[str, str]]:
    """Path → blob and outline of every source file that was read."""
    rows = tx.all("SELECT path, blob, outline FROM repository_outline WHERE repository_id = :id", {"id": repository_id})
    return {str(row["path"]): (str(row["blob"]), str(row["outline"])) for row in rows}


def put_outlines(tx: Tx, repository_id: str, outlines: Mapping[str, tuple[str, str]]) -> None:
    """Keep outlines by path, instead of those of other blobs."""
    tx.many(
        "INSERT INTO repository_outline (repository_id, path, blob, outline) VALUES (:repository, :path, :blob, "
        ":outline) ON CONFLICT (repository_id, path) DO UPDATE SET blob = excluded.blob, outline = excluded.outline",
        [
            {"repository": repository_id, "path": path, "blob": blob, "outline": outline}
            for path, (blob, outline) in outlines.items()
        ],
    )


def delete_outlines(tx: Tx, repository_id: str, paths: Sequence[str]) -> None:
    """Forget the outlines of files that are gone."""
    tx.many(
        "DELETE FROM repository_outline WHERE repository_id = :repository AND path = :path",
        [{"repository": repository_id, "path": path} for path in paths],
    )


def fingerprint(tx: Tx, repository_id: str) -> str:
    """What the last completed synthesis was made of; empty before the first."""
    row = tx.one("SELECT fingerprint FROM repository_synthesis WHERE repository_id = :id", {"id": repository_id})
    return str(row["fingerprint"]) if row else ""


def set_fingerprint(tx: Tx, repository_id: str, fingerprint: str, now: int) -> None:
    """Remember what it was made of."""
    tx.execute(
        "INSERT INTO repository_synthesis (repository_id, fingerprint, completed_at) VALUES (:id, :fingerprint, :now) "
        "ON CONFLICT (repository_id) DO UPDATE SET fingerprint = excluded.fingerprint, completed_at = :now",
        {"id": repository_id, "fingerprint": fingerprint, "now": now},
    )


def _finding(row: Row) -> Finding:
    values: dict[str, Any] = {name: row[name] for name in _COLUMNS.split(", ")}
    values["citations"] = tuple(FindingOrigin(**citation) for citation in orjson.loads(row["citations"]))
    return Finding(**values)
