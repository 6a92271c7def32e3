"""The matrix of names: every operation of the management API takes slugs where it takes ids."""

import re

import pytest

from holdfast.core.operations import Operation
from holdfast.server.routes import rest_operations
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.access.matrix import Ground, ground
from tests.support.access.tenant import filled, request_for
from tests.support.asgi import Answer, ask
from tests.support.server import serving
from tests.surfaces.access.test_matrix_rest import UNREAD

WORKSPACE = ("DELETE", "/api/workspaces/{workspace_id}")
PROJECT = ("DELETE", "/api/projects/{project_id}")
NAMED = ("workspace_id", "project_id", "memory", "artifact_id")
"""What has a name beside its id; everything else is known by its id or its name alone."""


async def _slugs(here: Ground) -> dict[str, str]:
    services, owner, workspace = here.server.services, here.server.owner, here.ids["workspace_id"]
    memory = await services.memory.get(owner, workspace, here.ids["memory"])
    project = await services.identity.project(owner, here.ids["project_id"])
    found = await services.workspaces.get(owner, workspace)
    return {"workspace_id": found.slug, "project_id": project.slug, "memory": memory.slug, "artifact_id": "a"}


async def _asked(here: Ground, operation: Operation, ids: dict[str, str]) -> Answer:
    params, headers, body = request_for(operation, ids)
    async with here.server.client() as client:
        headers |= {name: value for name, value in client.headers.items() if name == "authorization"}
    follow = operation.produces != "text/event-stream"
    return await ask(
        here.app, operation.method, filled(operation.path, ids), headers, params=params, body=body, follow=follow
    )


def _order(operation: Operation) -> tuple[int, str]:
    """What deletes comes after what reads and writes, parts before wholes, and the workspace and its project last."""
    if operation.method != "DELETE":
        return 0, ""
    if (operation.method, operation.path) in (WORKSPACE, PROJECT):
        return (3 if operation.path == PROJECT[1] else 2), ""
    # Paths sorted backwards: the longer one of two comes first, and relations before what they relate.
    return 1, "".join(chr(0x10FFFF - ord(letter)) for letter in operation.path) + chr(0x10FFFF)


@pytest.mark.slow
async def test_every_operation_takes_slugs_where_it_takes_ids(database: Database) -> None:
    wrong: list[str] = []
    tried = set()
    async with ground(database) as here:
        by_slug = {**here.ids, **await _slugs(here)}
        for operation in sorted(rest_operations(here.server.services), key=_order):
            named = set(re.findall(r"\{(\w+)\}", operation.path)) & set(NAMED)
            if not named or operation.access.people_only:
                continue
            tried |= named
            answer = await _asked(here, operation, by_slug)
            fine = answer.status < 300 or answer.status == 409
            if operation.method == "GET":
                fine = answer.status == (await _asked(here, operation, here.ids)).status
            elif UNREAD.search(operation.path):
                fine = fine or answer.status == 404
            elif (operation.method, operation.path) == PROJECT:
                # A project's own key deletes nothing of the organization; that it found the project is all it shows.
                fine = "whole organization" in answer.text
            if not fine:
                wrong.append(f"{operation.method} {operation.path}: {answer.status} {answer.text[:150]}")
    assert tried == set(NAMED)
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong)


async def test_filters_and_keys_take_slugs_too(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database) as server, server.client() as client:
        workspace = await server.services.workspaces.get(server.owner, server.start.workspace_id)
        project = await server.services.identity.project(server.owner, server.start.project_id)
        said = await client.post(f"/api/workspaces/{workspace.slug}/memories", json={"content": "Oil the barn door."})
        assert said.is_success, said.text
        # Sealed meanwhile or not, an event is the same.
        await server.services.audit.seal()
        for path in ("/api/audit", "/api/usage"):
            by_id = (await client.get(path, params={"workspace_id": workspace.id})).json()["items"]
            assert (await client.get(path, params={"workspace_id": workspace.slug})).json()["items"] == by_id
            assert by_id or path == "/api/usage"
            assert (await client.get(path, params={"workspace_id": "nowhere"})).json()["items"] == []
        body = {"name": "confined", "scopes": ["read"], "project_id": project.slug, "workspace_ids": [workspace.slug]}
        made = await client.post("/api/keys", json=body)
        assert made.status_code == 201, made.text
        assert made.json()["workspace_ids"] == [workspace.id] and made.json()["project_id"] == project.id
        missing = await client.post("/api/keys", json={**body, "workspace_ids": ["nowhere"]})
        assert missing.status_code == 404 and "nowhere" in missing.text
