"""Owns which fields of requests refer to something by id, and whether anything came to be."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from holdfast.storage.database import Tx

# What a field refers to, as the value that a request would have there.
REFERENCES: dict[str, Any] = {
    "artifact_id": "{artifact_id}",
    "case_id": "{case_id}",
    "centre": "{decision_id}",
    "chat_id": "{chat_id}",
    "decision_id": "{decision_id}",
    "decisions": ["{decision_id}"],
    "entity_id": "{decision_id}",
    "file_id": "{document_id}",
    "file_ids": ["{document_id}"],
    "from": {"type": "decision", "id": "{decision_id}"},
    "invocation_id": "{invocation_id}",
    "key_from": "{secret_name}",
    "parent": "{case_id}",
    "proof_id": "{proof_id}",
    "run_id": "{run_id}",
    "organization_id": "{organization_id}",
    "project_id": "{project_id}",
    "secret": "{secret_name}",
    "slugs": ["{slug}"],
    "supersedes": "{memory}",
    "to": {"type": "memory", "id": "{memory}"},
    "workspace_id": "{workspace_id}",
    "workspace_ids": ["{workspace_id}"],
}
COUNTED = (
    "api_key",
    "artifact",
    "chat",
    "chat_message",
    "decision",
    "document",
    "endpoint",
    "memory",
    "milestone",
    "relation",
    "repository",
    "vector_store",
    "work_case",
    "case_comment",
    "case_link",
    "case_proof",
    "workspace",
)


def fields_of(model: type[BaseModel] | None) -> Iterator[str]:
    for name, field in (model.model_fields if model is not None else {}).items():
        yield field.alias or name


def counts(tx: Tx) -> dict[str, int]:
    found = {}
    for table in COUNTED:
        row = tx.one(f"SELECT COUNT(*) AS number FROM {table}")
        assert row is not None
        found[table] = int(row["number"])
    return found
