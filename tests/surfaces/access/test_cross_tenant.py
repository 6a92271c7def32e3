"""The cross-tenant matrix: every operation that takes an id, asked with another's id, is NotFound."""

import re
from typing import Any

import httpx
import pytest

from holdfast.core.operations import Operation
from holdfast.features.identity.model import MintedKey, NewKey
from holdfast.features.identity.standing import principal_of
from holdfast.server.routes import rest_operations
from tests.support.access.tenant import body_for, filled, make_everything, query_for
from tests.support.server import TestServer

# A tenant's own organization, users and keys are not within a workspace: only the first matrix asks for them.
OUTSIDE_WORKSPACES = ("organization_id", "project_id", "key_id", "user_id", "client", "invitation_id")


async def ask(client: httpx.AsyncClient, operation: Operation, path: str, ids: dict[str, str]) -> httpx.Response:
    options: dict[str, Any] = {"params": query_for(operation)}
    if operation.body is not None:
        options["json"] = body_for(operation, ids)
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
            # An agent and its sessions also go by their ids alone, for whoever sees their workspace.
            alone = bool(names & {"agent_id", "session_id"}) and "workspace_id" not in names
            if names & set(OUTSIDE_WORKSPACES) or names == {"workspace_id"} or chosen or alone:
                continue
            answer = await ask(client, operation, filled(operation.path, moved), moved)
            expected = 403 if operation.access.people_only else 404
            assert answer.status_code == expected, f"{operation.method} {operation.path}: {answer.text}"


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
