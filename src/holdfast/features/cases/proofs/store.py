"""Owns the SQL of proofs, their runs, prepared environments and signing keys."""

import json
from collections.abc import Sequence
from typing import Any

from holdfast.engines.master_key import Sealed
from holdfast.features.cases.proofs.model import Environment, Proof, ProofRun, TestResult
from holdfast.storage.database import Row, Tx

_PROOF = (
    *("id", "workspace_id", "case_id", "kind", "claim", "criteria", "command", "expected_exit", "tests", "report"),
    *("is_reproduction", "environment", "timeout_seconds", "commit_sha", "outcome", "artifact_id", "author"),
    *("author_name", "created_at"),
)
_RUN = (
    *("id", "proof_id", "case_id", "commit_sha", "side", "outcome", "said", "exit_code", "tests", "output"),
    *("output_bytes", "output_digest", "seconds", "environment", "job_id", "requested_by", "created_at", "ended_at"),
)
_ENVIRONMENT = ("workspace_id", "name", "path", "created_by", "created_at", "digest", "checked_at", "problem")
_EMPTY = {"tests": "'[]' AS tests", "output": "'' AS output", "environment": "'{}' AS environment"}
_OUTCOME = tuple(_EMPTY.get(name, name) for name in _RUN)
_FIXED_OF_RUN = frozenset({"id", "proof_id", "case_id", "commit_sha", "side", "requested_by", "created_at"})
KEPT_RUNS = 50
"""How many runs of a proof are looked at: flakiness at one commit shows in far fewer."""


def add(tx: Tx, proof: Proof) -> None:
    """Keep a new proof."""
    same = {name: getattr(proof, name) for name in _PROOF if name in Proof.__slots__}
    values = {
        **same,
        "criteria": json.dumps(proof.criteria),
        "tests": json.dumps(proof.tests, ensure_ascii=False),
        "is_reproduction": int(proof.is_reproduction),
        "commit_sha": proof.commit,
    }
    tx.execute(
        f"INSERT INTO case_proof ({', '.join(_PROOF)}) VALUES ({', '.join(f':{name}' for name in _PROOF)})", values
    )


def get(tx: Tx, workspace_id: str, id: str) -> Proof | None:
    """One proof."""
    row = tx.one(
        f"SELECT {', '.join(_PROOF)} FROM case_proof WHERE workspace_id = :workspace_id AND id = :id",
        {"workspace_id": workspace_id, "id": id},
    )
    return None if row is None else _proof(row)


def place(tx: Tx, id: str) -> str | None:
    """The workspace that a proof is in, whoever asks: who may see it is the caller's question."""
    row = tx.one("SELECT workspace_id FROM case_proof WHERE id = :id", {"id": id})
    return None if row is None else str(row["workspace_id"])


def of_case(tx: Tx, case_id: str) -> list[Proof]:
    """A case's proofs, the first added first."""
    rows = tx.all(
        f"SELECT {', '.join(_PROOF)} FROM case_proof WHERE case_id = :id ORDER BY created_at, id", {"id": case_id}
    )
    return [_proof(row) for row in rows]


def put_run(tx: Tx, run: ProofRun) -> None:
    """Write a run as it is now, new or not."""
    same = {name: getattr(run, name) for name in _RUN if name in ProofRun.__slots__}
    values = {
        **same,
        "commit_sha": run.commit,
        "tests": json.dumps([[each.name, each.outcome] for each in run.tests], ensure_ascii=False),
        "environment": json.dumps(run.environment, ensure_ascii=False, sort_keys=True),
    }
    changes = ", ".join(f"{name} = excluded.{name}" for name in _RUN if name not in _FIXED_OF_RUN)
    tx.execute(
        f"INSERT INTO proof_run ({', '.join(_RUN)}) VALUES ({', '.join(f':{name}' for name in _RUN)}) "
        f"ON CONFLICT (id) DO UPDATE SET {changes}",
        values,
    )


def get_run(tx: Tx, id: str) -> ProofRun | None:
    """One run."""
    row = tx.one(f"SELECT {', '.join(_RUN)} FROM proof_run WHERE id = :id", {"id": id})
    return None if row is None else _run(row)


def runs(tx: Tx, proof_ids: Sequence[str], *, whole: bool = True) -> dict[str, list[ProofRun]]:
    """The newest runs of each proof, newest first; without `whole` only what a verdict needs, not what they printed."""
    found: dict[str, list[ProofRun]] = {}
    columns = ", ".join(_RUN if whole else _OUTCOME)
    for proof_id in proof_ids:
        rows = tx.all(
            f"SELECT {columns} FROM proof_run WHERE proof_id = :id ORDER BY id DESC LIMIT {KEPT_RUNS}",
            {"id": proof_id},
        )
        found[proof_id] = [_run(row) for row in rows]
    return found


def unfinished(tx: Tx, proof_id: str) -> ProofRun | None:
    """The run of a proof that waits or runs."""
    row = tx.one(
        f"SELECT {', '.join(_RUN)} FROM proof_run WHERE proof_id = :id AND outcome IN ('queued', 'running') "
        "ORDER BY id LIMIT 1",
        {"id": proof_id},
    )
    return None if row is None else _run(row)


def followed(tx: Tx, limit: int) -> list[tuple[str, str]]:
    """Cases being verified whose head is their repository's, with a run proof that never ran there."""
    rows = tx.all(
        "SELECT DISTINCT c.id, c.workspace_id FROM work_case c "
        "JOIN workspace w ON w.id = c.workspace_id "
        "JOIN repository r ON r.slug = c.repository AND r.organization_id = w.organization_id "
        "JOIN case_proof p ON p.case_id = c.id AND p.kind = 'run' "
        "WHERE c.state = 'VERIFYING' AND c.head_commit IS NULL AND r.head <> '' AND NOT EXISTS "
        "(SELECT 1 FROM proof_run x WHERE x.proof_id = p.id AND x.commit_sha = r.head AND x.side = 'head') "
        "LIMIT :limit",
        {"limit": limit},
    )
    return [(row["id"], row["workspace_id"]) for row in rows]


def repository_head(tx: Tx, workspace_id: str, slug: str) -> str | None:
    """Where a repository's branch stands, as far as it was read."""
    row = tx.one(
        "SELECT r.head FROM repository r JOIN workspace w ON w.organization_id = r.organization_id "
        "WHERE w.id = :workspace_id AND r.slug = :slug",
        {"workspace_id": workspace_id, "slug": slug},
    )
    return str(row["head"]) if row is not None and row["head"] else None


# Prepared environments


def put_environment(tx: Tx, environment: Environment) -> None:
    """Register a directory, in place of the one of that name."""
    tx.execute(
        f"INSERT INTO proof_environment ({', '.join(_ENVIRONMENT)}) "
        f"VALUES ({', '.join(f':{name}' for name in _ENVIRONMENT)}) ON CONFLICT (workspace_id, name) DO UPDATE SET "
        + ", ".join(f"{name} = excluded.{name}" for name in _ENVIRONMENT[2:]),
        {name: getattr(environment, name) for name in _ENVIRONMENT},
    )


def get_environment(tx: Tx, workspace_id: str, name: str) -> Environment | None:
    """A registered directory."""
    return next((each for each in environments(tx, workspace_id) if each.name == name), None)


def environments(tx: Tx, workspace_id: str) -> list[Environment]:
    """What is registered, by name."""
    rows = tx.all("SELECT * FROM proof_environment WHERE workspace_id = :id ORDER BY name", {"id": workspace_id})
    declared = declarations(tx, workspace_id)
    return [
        Environment(**{each: row[each] for each in _ENVIRONMENT}, repositories=tuple(declared.get(row["name"], ())))
        for row in rows
    ]


def declarations(tx: Tx, workspace_id: str) -> dict[str, list[str]]:
    """The repositories that declare each environment, be it registered or not."""
    found: dict[str, list[str]] = {}
    for row in tx.all(
        "SELECT environment, repository FROM repository_environment WHERE workspace_id = :id ORDER BY repository",
        {"id": workspace_id},
    ):
        found.setdefault(row["environment"], []).append(row["repository"])
    return found


def naming(tx: Tx, workspace_id: str) -> dict[str, int]:
    """How many open cases name each environment, be it registered or not."""
    rows = tx.all(
        "SELECT environment, COUNT(*) AS cases FROM work_case WHERE workspace_id = :id AND environment IS NOT NULL "
        "AND state NOT IN ('DONE', 'CANCELLED') GROUP BY environment",
        {"id": workspace_id},
    )
    return {str(row["environment"]): int(row["cases"]) for row in rows}


def declared_environment(tx: Tx, workspace_id: str, repository: str) -> str | None:
    """The name of the environment that a repository's proofs see, be it registered or not."""
    row = tx.one(
        "SELECT environment FROM repository_environment WHERE workspace_id = :workspace_id AND repository = :slug",
        {"workspace_id": workspace_id, "slug": repository},
    )
    return None if row is None else str(row["environment"])


def declare_environment(tx: Tx, workspace_id: str, name: str, repositories: Sequence[str]) -> None:
    """Let these repositories, and no others, have the environment; each has one."""
    tx.execute(
        "DELETE FROM repository_environment WHERE workspace_id = :workspace_id AND environment = :name",
        {"workspace_id": workspace_id, "name": name},
    )
    for repository in repositories:
        tx.execute(
            "INSERT INTO repository_environment (workspace_id, repository, environment) VALUES (:workspace_id, :slug, "
            ":name) ON CONFLICT (workspace_id, repository) DO UPDATE SET environment = excluded.environment",
            {"workspace_id": workspace_id, "slug": repository, "name": name},
        )


def remove_environment(tx: Tx, workspace_id: str, name: str) -> bool:
    """Whether it was there."""
    return bool(
        tx.execute(
            "DELETE FROM proof_environment WHERE workspace_id = :workspace_id AND name = :name",
            {"workspace_id": workspace_id, "name": name},
        )
    )


# Keys


def keys(tx: Tx) -> list[tuple[str, str, Sealed, int]]:
    """Every signing key, newest first: id, public half, sealed private half, when it was made."""
    rows = tx.all("SELECT * FROM proof_key ORDER BY created_at DESC, id")
    return [
        (
            str(row["id"]),
            str(row["public_key"]),
            Sealed(str(row["master_key_id"]), bytes(row["nonce"]), bytes(row["ciphertext"])),
            int(row["created_at"]),
        )
        for row in rows
    ]


def add_key(tx: Tx, id: str, public_key: str, sealed: Sealed, created_at: int) -> None:
    """Keep a signing key."""
    values: dict[str, Any] = {"id": id, "public_key": public_key, "master_key_id": sealed.key_id}
    tx.execute(
        "INSERT INTO proof_key (id, public_key, master_key_id, nonce, ciphertext, created_at) "
        "VALUES (:id, :public_key, :master_key_id, :nonce, :ciphertext, :created_at) ON CONFLICT DO NOTHING",
        {**values, "nonce": sealed.nonce, "ciphertext": sealed.ciphertext, "created_at": created_at},
    )


def reseal_key(tx: Tx, id: str, sealed: Sealed) -> None:
    """The same signing key under another master key."""
    tx.execute(
        "UPDATE proof_key SET master_key_id = :key_id, nonce = :nonce, ciphertext = :ciphertext WHERE id = :id",
        {"id": id, "key_id": sealed.key_id, "nonce": sealed.nonce, "ciphertext": sealed.ciphertext},
    )


def _proof(row: Row) -> Proof:
    same = {name: row[name] for name in _PROOF if name in Proof.__slots__}
    return Proof(
        **{
            **same,
            "criteria": tuple(json.loads(row["criteria"])),
            "tests": tuple(json.loads(row["tests"])),
            "is_reproduction": bool(row["is_reproduction"]),
            "commit": row["commit_sha"],
        }
    )


def _run(row: Row) -> ProofRun:
    same = {name: row[name] for name in _RUN if name in ProofRun.__slots__}
    return ProofRun(
        **{
            **same,
            "commit": row["commit_sha"],
            "tests": tuple(TestResult(name, outcome) for name, outcome in json.loads(row["tests"])),
            "environment": json.loads(row["environment"]),
        }
    )
