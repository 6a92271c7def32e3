"""Ids inside bodies and queries: another tenant's, and another workspace's, are not found and change nothing.

Which fields refer to something is asked of the models: a field that looks like an id and is in no table here fails.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.core.operations import Operation
from holdfast.core.principal import SCOPES
from holdfast.features.identity.model import NewKey
from holdfast.features.repositories.model import NewRepository
from holdfast.server.routes import rest_operations
from holdfast.storage.database import Database
from tests.support.access.callers import bearer
from tests.support.access.matrix import Ground, ground
from tests.support.access.tenant import body_for, filled, query_for
from tests.support.asgi import Answer, ask
from tests.support.references import REFERENCES, counts, fields_of
from tests.support.server import Tenant, TestServer

# Fields that look like references and are none, or that find nothing instead of refusing, with the reason.
NAMES_ONLY = {
    "id": "the name of a new chat, which its maker chooses",
    "session_id": "a label of the client's; nothing is looked up by it",
    "resource_id": "searches a log that outlives what it names",
    "actor": "searches a log that outlives what it names",
    "author": "searches memories by who wrote them",
    "after": "a place in a list",
    "before": "a place in a list",
    "cursor": "a place in a list",
    "branch": "a message of the chat in the path",
    "identifier": "a name that its maker chooses",
    "parent_id": "searches sessions by what spawned them",
}
# These search, and find nothing of others: logs outlive what they name, and a chat's documents may come before it.
SEARCHES = {
    "/api/audit": ("workspace_id",),
    "/api/audit/export": ("workspace_id",),
    "/api/usage": ("project_id", "workspace_id"),
    "/api/usage/log": ("project_id", "workspace_id"),
    "/api/workspaces/{workspace_id}/documents": ("chat_id",),
    "/api/workspaces/{workspace_id}/documents/search": ("chat_id",),
}
_LOOKS_LIKE_ONE = re.compile(r"(^|_)(id|ids|from|to)$|^(slugs|supersedes|decisions|secret|centre|parent)$")


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in a request where an id may stand."""

    operation: Operation
    part: str
    field: str

    @property
    def name(self) -> str:
        return f"{self.operation.method} {self.operation.path} {self.part} {self.field}"


def slots(operations: list[Operation]) -> list[Slot]:
    return [
        Slot(operation, part, field)
        for operation in operations
        for part, model in (("body", operation.body), ("query", operation.query))
        for field in fields_of(model)
        if field in REFERENCES and not _finds_nothing(operation, field) and not operation.access.people_only
    ]


def _finds_nothing(operation: Operation, field: str) -> bool:
    return field in SEARCHES.get(operation.path, ())


async def test_every_field_that_looks_like_an_id_is_known(sqlite_server: TestServer) -> None:
    services = sqlite_server.services
    models = [
        (f"{each.method} {each.path}", model) for each in rest_operations(services) for model in (each.body, each.query)
    ]
    models += [(tool.name, tool.input) for tool in services.gateway.listed("mcp")]
    unknown = [
        f"{where}: {field}"
        for where, model in models
        for field in fields_of(model)
        if _LOOKS_LIKE_ONE.search(field) and field not in REFERENCES and field not in NAMES_ONLY
    ]
    assert not unknown, unknown


def value_in(slot: Slot, ids: dict[str, str]) -> Any:
    """The foreign value; what a decision supersedes is a decision."""
    if slot.field == "supersedes" and "/decisions" in slot.operation.path:
        return ids["decision_id"]
    value = filled(REFERENCES[slot.field], ids)
    return ",".join(value) if slot.part == "query" and isinstance(value, list) else value


async def planted(
    here: Ground, slot: Slot, headers: dict[str, str], own: dict[str, str], foreign: dict[str, str]
) -> Answer:
    """A request of one's own things that names one foreign thing."""
    operation = slot.operation
    body, params = body_for(operation, own), dict(query_for(operation))
    value = value_in(slot, foreign)
    if slot.part == "body" and body is not None:
        body[slot.field] = value
        if slot.field == "decisions":
            body.setdefault("title", "Planted")
    else:
        params[slot.field] = value
    return await ask(
        here.app,
        operation.method,
        filled(operation.path, own),
        {"Content-Type": "application/json", **headers},
        params=params,
        body=b"" if body is None else json.dumps(body).encode(),
    )


async def refuse_all(
    here: Ground, headers: dict[str, str], own: dict[str, str], foreign: dict[str, str], chosen: list[Slot]
) -> list[str]:
    """What is wrong with the answers to requests that each name one foreign thing."""
    wrong = []
    database = here.server.services.database
    for slot in chosen:
        before = await database.read(counts)
        answer = await planted(here, slot, headers, own, foreign)
        named = answer.status == 422 and slot.field.split("[")[0] in json.dumps(answer.json()["error"]["fields"])
        if answer.status != 404 and not named:
            wrong.append(f"{slot.name} is answered {answer.status}: {answer.text[:200]}")
        if await database.read(counts) != before:
            wrong.append(f"{slot.name} changed something")
        # No title or text of the other's may be told; ids were sent along.
        if "secret launch" in answer.text or "Keep the secret" in answer.text:
            wrong.append(f"{slot.name} tells what it found: {answer.text[:200]}")
    return wrong


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_another_tenants_ids_are_not_found_wherever_they_stand(database: Database) -> None:
    async with ground(database) as here:
        other = await here.server.another_tenant("Thieves")
        whole = NewKey(name="root", kind="organization", scopes=frozenset(SCOPES))
        headers = bearer(await here.server.services.keys.create(other.owner, whole))
        own = await things_of(here, other, headers)
        wrong = await refuse_all(here, headers, own, here.ids, slots(list(rest_operations(here.server.services))))
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_searches_by_another_tenants_ids_find_nothing(database: Database) -> None:
    wrong: list[str] = []
    async with ground(database) as here:
        # There is something to be found: a document in the chat, and events and usage in the workspace.
        uploaded = {"file": ("secret.txt", b"a secret text", "text/plain")}
        space = f"/api/workspaces/{here.ids['workspace_id']}"
        async with here.server.client() as client:
            kept = await client.post(f"{space}/documents", files=uploaded, data={"chat_id": here.ids["chat_id"]})
            assert kept.is_success, kept.text
        other = await here.server.another_tenant("Thieves")
        whole = NewKey(name="root", kind="organization", scopes=frozenset(SCOPES))
        headers = bearer(await here.server.services.keys.create(other.owner, whole))
        own = {**here.ids, "workspace_id": other.workspace_id}
        for operation in rest_operations(here.server.services):
            for field in SEARCHES.get(operation.path, ()) if operation.method == "GET" else ():
                answer = await planted(here, Slot(operation, "query", field), headers, own, here.ids)
                found = answer.json() if answer.body else {}
                if answer.status != 200 or found.get("items") or found.get("results"):
                    wrong.append(f"{operation.path} {field} is answered {answer.status}: {answer.text[:200]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_another_workspaces_ids_are_not_found_wherever_they_stand(database: Database) -> None:
    async with ground(database) as here:
        server = here.server
        second = await server.services.workspaces.create(server.owner, server.start.project_id, "Second")
        key = await server.mint(name="second", workspace_ids=frozenset({second.id}))
        place = Tenant(server.start.organization_id, server.start.project_id, second.id, server.owner)
        own = await things_of(here, place, bearer(key))
        within = [slot for slot in slots(list(rest_operations(server.services))) if slot.field not in ("project_id",)]
        within = [slot for slot in within if slot.operation.access.level == "workspace"]
        wrong = await refuse_all(here, bearer(key), own, here.ids, within)
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong)


async def things_of(here: Ground, tenant: Tenant, headers: dict[str, str]) -> dict[str, str]:
    """What the requests of a tenant need of its own: ids by the names that paths use."""
    space = f"/api/workspaces/{tenant.workspace_id}"

    async def make(path: str, body: dict[str, Any], field: str) -> str:
        sent = {"Content-Type": "application/json", **headers}
        answer = await ask(here.app, "POST", path, sent, body=json.dumps(body).encode())
        assert answer.status < 300, answer.text
        return str(answer.json()[field])

    return {
        **here.ids,
        "organization_id": tenant.organization_id,
        "project_id": tenant.project_id,
        "workspace_id": tenant.workspace_id,
        "memory": await make(f"{space}/memories", {"content": "We keep bees on the roof"}, "memory_id"),
        "decision_id": await make(f"{space}/decisions", {"title": "Keep bees"}, "id"),
        "milestone_id": await make(f"{space}/milestones", {"title": "Bees kept"}, "id"),
        "vector_store_id": await make(f"{space}/vector_stores", {"name": "bees"}, "id"),
        "chat_id": await make(f"{space}/chats", {"id": "bees", "title": "Bees"}, "id"),
        "slug": (
            await here.server.services.repositories.add(
                tenant.owner, tenant.workspace_id, NewRepository(location="https://git.invalid/bees.git", slug="bees")
            )
        ).slug,
    }
