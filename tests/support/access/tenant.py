"""Owns one of each thing that has an id in a tenant, and a valid request for each operation of the management API."""

import json
import re
from dataclasses import replace
from typing import Any

import httpx

from holdfast.core.ids import new_id
from holdfast.core.operations import Operation
from holdfast.features.agents.sessions import store as session_store
from holdfast.features.agents.sessions.model import SessionQuestion
from holdfast.features.cases.proofs.service import ProofService
from holdfast.features.chat import store as chat_store
from holdfast.features.chat.model import ChatQuestion
from holdfast.features.execution.model import InvocationRequest, NewGrant
from holdfast.features.execution.policies.grants import Grants
from holdfast.features.execution.service import Execution
from holdfast.features.repositories.model import NewRepository
from tests.support.execution.counting import pinned
from tests.support.server import TestServer

# One valid body for each operation that has one, by the name of its model: a new operation needs a row here.
BODIES: dict[str, dict[str, Any]] = {
    "NameBody": {"name": "Stolen"},
    "WorkspaceBody": {"name": "Planted", "project_id": "{project_id}"},
    "UserBody": {"email": "planted@example.com", "name": "Planted"},
    "KeyBody": {"name": "planted", "project_id": "{project_id}", "scopes": ["management"], "tier": "core"},
    "WorkspaceChangeBody": {"name": "Stolen"},
    "UserChangeBody": {"role": "admin"},
    "PasswordBody": {"password": "a long enough password"},
    "AcceptanceBody": {"token": "invented"},
    "SessionBody": {"organization_id": "{organization_id}"},
    "OwnNameBody": {"name": "Renamed"},
    "KeyChangeBody": {"tier": "core"},
    "BundleBody": {},
    "RepositoriesBody": {"repositories": []},
    "MemoryBody": {"content": "Foreign knowledge planted here"},
    "RecallBody": {"query": "secret"},
    "MemoryChangeBody": {"content": "Changed by a stranger"},
    "RetractBody": {},
    "ArtifactBody": {"identifier": "planted", "title": "Planted", "type": "text/plain", "content": "x"},
    "ArtifactChangeBody": {"content": "changed"},
    "VectorStoreBody": {"name": "planted"},
    "VectorStoreChangeBody": {"name": "changed"},
    "VectorStoreSearchBody": {"query": "secret"},
    "VectorStoreFileBody": {"file_id": "{document_id}"},
    "FileBatchBody": {"file_ids": ["{document_id}"]},
    "VectorStoreFileChangeBody": {"attributes": {"a": "b"}},
    "ChatBody": {"title": "Planted"},
    "ChatChangeBody": {"title": "Changed"},
    "AnswerBody": {"answer": "Planted"},
    "DecisionBody": {"title": "Planted"},
    "DecisionChangeBody": {"title": "Changed"},
    "MilestoneBody": {"title": "Planted"},
    "MilestoneChangeBody": {"title": "Changed"},
    "RecordBody": {"type": "planted", "data": {"name": "Planted"}},
    "GraphQueryBody": {"query": "find secret"},
    "VectorSearchBody": {"text": "secret"},
    "RelationBody": {
        "from": {"type": "memory", "id": "{memory}"},
        "to": {"type": "decision", "id": "{decision_id}"},
        "relation": "planted",
    },
    "AnalyzeBody": {},
    "SecretBody": {"value": "planted"},
    "EndpointBody": {"upstreams": []},
    "NewEndpointBody": {"name": "planted", "upstreams": []},
    "RepositoryBody": {"location": "https://git.invalid/planted.git"},
    "WebhookBody": {"secret": None},
    "SettleBody": {"keep": "both"},
    "ServerBody": {"name": "planted", "command": "/usr/bin/true"},
    "ServerChangeBody": {"command": "/usr/bin/false"},
    "SnippetBody": {"mcpServers": {"pasted": {"command": "/usr/bin/true"}}},
    "AcceptBody": {},
    "ToolPolicyBody": {"policy": "auto"},
    "InvocationBody": {"tool_name": "demo.count", "arguments": {"name": "planted"}},
    "ExecutionSettingBody": {"log_arguments": True},
    "ApprovalBody": {"decision": "deny"},
    "GrantBody": {
        "workspace": "{workspace_id}",
        "subject": {"type": "key", "id": "{key_id}"},
        "grant_type": "tool_scope",
        "details": {"scope": "demo.write"},
    },
    "CaseBody": {"title": "Planted"},
    "CaseChangeBody": {"title": "Changed"},
    "CaseLinkBody": {"type": "related", "case_id": "{other_case_id}"},
    "MoveBody": {"state": "CANCELLED", "reason": "Planted"},
    "CommentBody": {"text": "Planted"},
    "ClaimBody": {},
    "RenewBody": {"fence": 1},
    "ReleaseBody": {},
    "ProofBody": {"kind": "reported", "outcome": "passed"},
    "AgentBody": {"name": "Planted"},
    "AttachmentsBody": {"name": "demo", "env": {}},
    "AgentSessionBody": {"prompt": "Planted"},
    "SessionMessageBody": {"text": "Planted"},
    "ResumeBody": {},
    "SessionReplyBody": {"answer": "Planted"},
    "AskBody": {"question": "Where is the secret?", "slugs": ["{slug}"]},
}
QUERIES = {
    "SearchQuery": {"q": "secret"},
    "ChatSearchQuery": {"q": "secret"},
    "DocumentSearchQuery": {"q": "secret"},
    "RepositorySearchQuery": {"q": "secret"},
    "RepositoryFilesQuery": {"q": "secret"},
    "FileQuery": {"path": "README.md"},
    "BlameQuery": {"path": "README.md"},
}


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
        "contradiction_id": await _contradiction(client, space),
        "artifact_id": await make(
            f"{space}/artifacts",
            {"identifier": "a", "title": "A", "type": "text/plain", "content": "secret"},
            "artifact_id",
        ),
        "decision_id": await make(f"{space}/decisions", {"title": "Keep the secret"}, "decision_id"),
        "milestone_id": await make(f"{space}/milestones", {"title": "Secret kept"}, "milestone_id"),
        "record_id": await make(
            f"{space}/records", {"type": "secret", "data": {"name": "Kept"}, "collection": "victim"}, "record_id"
        ),
        "vector_store_id": await make(f"{space}/vector_stores", {"name": "secrets"}),
        "chat_id": await make(f"{space}/chats", {"id": "secret-chat", "title": "Secret"}),
        "case_id": await make(f"{space}/cases", {"title": "Hide the secret"}),
        "other_case_id": await make(f"{space}/cases", {"title": "Keep it hidden"}),
        "correlation_id": new_id("ask"),
        "client": "cursor",
    }
    proof = {"kind": "reported", "outcome": "passed"}
    ids["proof_id"] = await make(f"{space}/cases/{ids['case_id']}/proofs", proof)
    await server.services[ProofService].register(server.owner, server.start.workspace_id, "victim", "/usr/share")
    ids |= {"run_id": new_id("prun"), "other_id": ids["other_case_id"], "type": "related", "name": "victim"}
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
    batches = f"{space}/vector_stores/{ids['vector_store_id']}/file_batches"
    ids["batch_id"] = await make(batches, {"file_ids": [ids["document_id"]]})
    jobs = (await client.get(f"{space}/jobs")).json()["items"]
    ids["job_id"] = jobs[0].get("job_id") or jobs[0]["id"]
    asked = ChatQuestion(
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
    ids |= await _execution(server, ids["user_id"])
    ids["relation_id"] = await make(f"{space}/relations", relation, "relation_id")
    ids["agent_id"] = await make(f"{space}/agents", {"name": "Victim"})
    ids["session_id"] = await make(f"/api/agents/{ids['agent_id']}/sessions", {"prompt": "secret"}, "session_id")
    ids["question_id"] = await _session_question(server, ids["session_id"])
    return ids


async def _session_question(server: TestServer, session_id: str) -> str:
    asked = SessionQuestion(
        id=new_id("qst"),
        session_id=session_id,
        workspace_id=server.start.workspace_id,
        request_id="one",
        kind="input",
        question="secret?",
        created_at=0,
    )
    await server.services.database.write(lambda tx: session_store.insert_question(tx, asked))
    return asked.id


async def _execution(server: TestServer, user_id: str) -> dict[str, str]:
    """A server with a tool, a call that waits for a person, and a grant."""
    workspace = server.start.workspace_id
    await pinned(server.services, server.owner, workspace)
    request = InvocationRequest(
        principal=server.owner, workspace_id=workspace, tool_name="demo.count", arguments={}, source="cli"
    )
    asked = (await server.services[Execution].invoke(request)).invocation
    person = replace(server.owner, actor=user_id, proof="session")
    new = NewGrant(subject_type="user", subject_id=user_id, grant_type="tool_scope", details={"scope": "demo.write"})
    grant = await server.services[Grants].give(person, workspace, new)
    assert asked.approval is not None
    return {
        "server": "demo",
        "tool": "count",
        "invocation_id": asked.id,
        "approval_id": asked.approval.id,
        "grant_id": grant.id,
    }


async def _contradiction(client: httpx.AsyncClient, space: str) -> str:
    for content in ("The secret limit is 45 calls a minute", "The secret limit is 60 calls a minute"):
        assert (await client.post(f"{space}/memories", json={"content": content})).is_success
    return str((await client.get(f"{space}/contradictions")).json()["items"][0]["id"])


def filled(value: Any, ids: dict[str, str]) -> Any:
    """The value with `{name}` replaced by that id."""
    if isinstance(value, str):
        return re.sub(r"\{(\w+)\}", lambda match: ids[match[1]], value)
    if isinstance(value, dict):
        return {key: filled(item, ids) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item, ids) for item in value]
    return value


def body_for(operation: Operation, ids: dict[str, str]) -> dict[str, Any] | None:
    """A body that the operation takes, naming this tenant's things; None where it takes none."""
    if operation.body is None:
        return None
    return dict(filled(BODIES[operation.body.__name__], ids))


def query_for(operation: Operation) -> dict[str, str]:
    """The query that the operation cannot do without."""
    return QUERIES.get(operation.query.__name__, {})


def request_for(operation: Operation, ids: dict[str, str]) -> tuple[dict[str, str], dict[str, str], bytes]:
    """Query, headers and body of a request that the operation takes, naming this tenant's things."""
    body = body_for(operation, ids)
    if body is not None:
        return query_for(operation), {"Content-Type": "application/json"}, json.dumps(body).encode()
    if operation.upload == "multipart/form-data":
        part = (
            b'--edge\r\nContent-Disposition: form-data; name="file"; filename="x.txt"\r\n'
            b"Content-Type: text/plain\r\n\r\nplanted\r\n--edge--\r\n"
        )
        return query_for(operation), {"Content-Type": "multipart/form-data; boundary=edge"}, part
    if operation.upload is not None:
        line = b'{"type":"memory","content":"planted"}\n'
        return query_for(operation), {"Content-Type": operation.upload}, line
    return query_for(operation), {}, b""
