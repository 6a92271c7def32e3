"""The cross-tenant matrix: every operation that takes an id, asked with another's id, is NotFound."""

import re
from typing import Any

import httpx
import pytest

from holdfast.core.ids import new_id
from holdfast.doors import rest_operations
from holdfast.features.chat import store as chat_store
from holdfast.features.chat.model import Question
from holdfast.features.identity.model import MintedKey, NewKey
from holdfast.features.identity.standing import principal_of
from holdfast.features.repositories.model import NewRepository
from holdfast.surfaces.rest.api import Operation
from tests.support.server import TestServer

# One valid body for each operation that has one, by the name of its model: a new operation needs a row here.
BODIES: dict[str, dict[str, Any]] = {
    "Named": {"name": "Stolen"},
    "Renamed": {"name": "Stolen"},
    "ChangedUser": {"role": "admin"},
    "NewPassword": {"password": "a long enough password"},
    "Acceptance": {"token": "invented"},
    "SwitchedTo": {"organization_id": "{organization_id}"},
    "ChangedKey": {"tier": "core"},
    "BundleBody": {},
    "MemoryBody": {"content": "Foreign knowledge planted here"},
    "RecallBody": {"query": "secret"},
    "MemoryChange": {"content": "Changed by a stranger"},
    "RetractBody": {},
    "ArtifactBody": {"identifier": "planted", "title": "Planted", "type": "text/plain", "content": "x"},
    "ArtifactChange": {"content": "changed"},
    "VectorStoreBody": {"name": "planted"},
    "VectorStoreChangeBody": {"name": "changed"},
    "SearchBody": {"query": "secret"},
    "FileBody": {"file_id": "{document_id}"},
    "AttributesBody": {"attributes": {"a": "b"}},
    "ChatBody": {"title": "Planted"},
    "ChatChange": {"title": "Changed"},
    "AnswerBody": {"answer": "Planted"},
    "DecisionBody": {"title": "Planted"},
    "DecisionChange": {"title": "Changed"},
    "MilestoneBody": {"title": "Planted"},
    "MilestoneChange": {"title": "Changed"},
    "RelationBody": {
        "from": {"type": "memory", "id": "{memory}"},
        "to": {"type": "decision", "id": "{decision_id}"},
        "relation": "planted",
    },
    "AnalyzeBody": {},
    "SecretBody": {"value": "planted"},
    "EndpointBody": {"upstreams": []},
    "NewEndpointBody": {"name": "planted", "upstreams": []},
    "RepositoryBody": {"location": "https://example.org/planted.git"},
    "WebhookBody": {"secret": None},
    "QuestionBody": {"question": "Where is the secret?", "slugs": ["{slug}"]},
}
QUERIES = {
    "SearchQuery": {"q": "secret"},
    "DocumentSearchQuery": {"q": "secret"},
    "RepositorySearchQuery": {"q": "secret"},
    "RepositoryFilesQuery": {"q": "secret"},
    "FileQuery": {"path": "README.md"},
    "BlameQuery": {"path": "README.md"},
}
# A tenant's own organization, users and keys are not within a workspace: only the first matrix asks for them.
OUTSIDE_WORKSPACES = ("organization_id", "project_id", "key_id", "user_id", "client", "invitation_id")


async def make_everything(client: httpx.AsyncClient, server: TestServer) -> dict[str, str]:
    """One of each thing that has an id, in the first tenant."""
    space = f"/api/workspaces/{server.start.workspace_id}"

    async def make(path: str, body: dict[str, Any], field: str = "id") -> str:
        answer = await client.post(path, json=body)
        assert answer.is_success, answer.text
        found = answer.json()
        return str(found.get(field) or found["id"])

    user = await server.services.identity.create_user(server.owner, email="eve@example.com", name="Eve")
    ids = {
        "organization_id": server.start.organization_id,
        "project_id": server.start.project_id,
        "workspace_id": server.start.workspace_id,
        "user_id": user.id,
        "invitation_id": (await server.services.invitations.invite(server.owner, email="x@example.com")).invitation.id,
        "key_id": (await server.mint(name="victim")).key.id,
        "memory": await make(f"{space}/memories", {"content": "The secret launch code is kept by Eve"}, "memory_id"),
        "artifact_id": await make(
            f"{space}/artifacts",
            {"identifier": "a", "title": "A", "type": "text/plain", "content": "secret"},
            "artifact_id",
        ),
        "decision_id": await make(f"{space}/decisions", {"title": "Keep the secret"}, "decision_id"),
        "milestone_id": await make(f"{space}/milestones", {"title": "Secret kept"}, "milestone_id"),
        "vector_store_id": await make(f"{space}/vector_stores", {"name": "secrets"}),
        "chat_id": await make(f"{space}/chats", {"id": "secret-chat", "title": "Secret"}),
        "correlation_id": new_id("ask"),
        "client": "cursor",
    }
    kept = await client.put(f"{space}/secrets/VICTIM", json={"value": "a secret value"})
    assert kept.is_success, kept.text
    ids["secret_name"] = "VICTIM"
    ids["endpoint"] = await make(f"/api/projects/{server.start.project_id}/endpoints", {"name": "victim"}, "name")
    uploaded = await client.post(f"{space}/documents", files={"file": ("secret.txt", b"a secret text", "text/plain")})
    assert uploaded.is_success, uploaded.text
    ids["document_id"] = str(uploaded.json().get("document_id") or uploaded.json()["id"])
    added = await client.post(
        f"{space}/vector_stores/{ids['vector_store_id']}/files", json={"file_id": ids["document_id"]}
    )
    assert added.is_success, added.text
    ids["file_id"] = ids["document_id"]
    jobs = (await client.get(f"{space}/jobs")).json()["items"]
    ids["job_id"] = jobs[0].get("job_id") or jobs[0]["id"]
    asked = Question(
        ids["correlation_id"], ids["chat_id"], "", "", {"question": "secret?"}, [], "pending", None, None, 0, None
    )
    await server.services.database.write(lambda tx: chat_store.insert_question(tx, server.start.workspace_id, asked))
    relation = {
        "from": {"type": "memory", "id": ids["memory"]},
        "to": {"type": "decision", "id": ids["decision_id"]},
        "relation": "supports",
    }
    # Whether it can be read does not matter here.
    repository = NewRepository(location="https://git.invalid/victim.git", slug="victim")
    ids["slug"] = (await server.services.repositories.add(server.owner, server.start.workspace_id, repository)).slug
    ids["sha"] = "0123456789"
    ids["relation_id"] = await make(f"{space}/relations", relation, "relation_id")
    return ids


def filled(value: Any, ids: dict[str, str]) -> Any:
    """The value with `{name}` replaced by that id."""
    if isinstance(value, str):
        return re.sub(r"\{(\w+)\}", lambda match: ids[match[1]], value)
    if isinstance(value, dict):
        return {key: filled(item, ids) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, ids) for item in value]
    return value


async def ask(client: httpx.AsyncClient, operation: Operation, path: str, ids: dict[str, str]) -> httpx.Response:
    options: dict[str, Any] = {"params": QUERIES.get(operation.query.__name__, {})}
    if operation.body is not None:
        options["json"] = filled(BODIES[operation.body.__name__], ids)
    elif operation.upload == "multipart/form-data":
        options["files"] = {"file": ("x.txt", b"planted", "text/plain")}
    elif operation.upload is not None:
        options["content"] = b'{"type":"memory","content":"planted"}\n'
    return await client.request(operation.method, path, **options)


def refusal(operation: Operation, minted: MintedKey) -> int:
    """What a stranger's key is answered: that it finds nothing, unless it may not ask at all, whosever the id is."""
    return 404 if operation.access.missing(principal_of(minted.key)) is None else 403


def with_ids(operations: Any) -> list[Operation]:
    return [operation for operation in operations if "{" in operation.path]


@pytest.mark.slow
async def test_another_organizations_key_finds_nothing(server: TestServer) -> None:
    other = await server.another_tenant()
    thief = await server.mint(owner=other.owner, project_id=other.project_id)
    async with server.client() as own, server.client(thief.secret) as foreign:
        ids = await make_everything(own, server)
        for operation in with_ids(rest_operations(server.services)):
            answer = await ask(foreign, operation, filled(operation.path, ids), ids)
            assert answer.status_code == refusal(operation, thief), f"{operation.method} {operation.path}"
            assert "secret" not in answer.text.lower() or "secret" in str(answer.request.url)


@pytest.mark.slow
async def test_another_organizations_owner_finds_nothing(sqlite_server: TestServer) -> None:
    server = sqlite_server
    other = await server.another_tenant()
    new = NewKey(name="root", kind="organization", scopes=frozenset({"inference", "management", "read"}))
    thief = await server.services.keys.create(other.owner, new)
    async with server.client() as own, server.client(thief.secret) as foreign:
        ids = await make_everything(own, server)
        for operation in with_ids(rest_operations(server.services)):
            answer = await ask(foreign, operation, filled(operation.path, ids), ids)
            assert answer.status_code == refusal(operation, thief), (
                f"{operation.method} {operation.path}: {answer.text}"
            )


@pytest.mark.slow
async def test_ids_of_one_workspace_are_not_found_in_another(server: TestServer) -> None:
    other = await server.services.workspaces.create(server.owner, server.start.project_id, "Other")
    async with server.client() as client:
        ids = await make_everything(client, server)
        moved = {**ids, "workspace_id": other.id}
        for operation in with_ids(rest_operations(server.services)):
            names = set(re.findall(r"\{(\w+)\}", operation.path))
            # A secret is put by a name of the caller's choice: the other workspace gets one of its own.
            chosen = operation.method == "PUT" and "secret_name" in names
            if names & set(OUTSIDE_WORKSPACES) or names == {"workspace_id"} or chosen:
                continue
            answer = await ask(client, operation, filled(operation.path, moved), moved)
            assert answer.status_code == 404, f"{operation.method} {operation.path}: {answer.text}"


@pytest.mark.slow
async def test_a_key_confined_to_one_workspace_finds_nothing_of_another(sqlite_server: TestServer) -> None:
    server = sqlite_server
    other = await server.services.workspaces.create(server.owner, server.start.project_id, "Other")
    confined = await server.mint(name="confined", workspace_ids=frozenset({other.id}))
    async with server.client() as own, server.client(confined.secret) as foreign:
        ids = await make_everything(own, server)
        for operation in with_ids(rest_operations(server.services)):
            if "{workspace_id}" not in operation.path:
                continue
            answer = await ask(foreign, operation, filled(operation.path, ids), ids)
            expected = refusal(operation, confined)
            assert answer.status_code == expected, f"{operation.method} {operation.path}: {answer.text}"
