"""The third matrix: every path of OpenAI's and of Anthropic's clients with every kind of credential."""

import json
import re
from typing import Any

import pytest

from holdfast.core.access import Access
from holdfast.features.documents.vector_stores import batch_operations as file_batches
from holdfast.features.documents.vector_stores import operations as vector_stores
from holdfast.server.endpoints import anthropic
from holdfast.server.endpoints.openai import routes
from holdfast.storage.database import Database
from holdfast.surfaces.http.endpoint.surface import EndpointRoute
from tests.support.access.callers import bearer
from tests.support.access.matrix import Ground, ground, verdict
from tests.support.access.oracle import expected
from tests.support.access.tenant import filled, request_for
from tests.support.asgi import ask
from tests.support.references import counts

# What lets anybody in at all, by the contract's own word (XM-19).
DOOR = Access("workspace", "inference")
JSON = {"Content-Type": "application/json"}
# Both have models; only clients of Anthropic's say which version of its API they speak.
ANTHROPIC = {"anthropic-version": "2023-06-01"}
BODIES = {
    "/messages": {"model": "any", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]},
    "/messages/count_tokens": {"model": "any", "messages": [{"role": "user", "content": "Hello"}]},
    "/chat/completions": {"model": "any", "messages": [{"role": "user", "content": "Hello"}]},
    "/embeddings": {"model": "any", "input": "Hello"},
    "/responses": {"model": "any", "input": "Hello"},
    "/conversations": {"items": [{"role": "user", "content": "Hello"}]},
    "/conversations/{conversation_id}": {"metadata": {}},
    "/conversations/{conversation_id}/items": {"items": [{"role": "user", "content": "Hello"}]},
}
UPLOAD = (
    b'--edge\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nassistants\r\n'
    b'--edge\r\nContent-Disposition: form-data; name="file"; filename="x.txt"\r\n'
    b"Content-Type: text/plain\r\n\r\nplanted\r\n--edge--\r\n"
)


def request_of(
    here: Ground, route: EndpointRoute[Any], ids: dict[str, str]
) -> tuple[dict[str, str], dict[str, str], bytes]:
    """Query, headers and body of a request for a path."""
    for operation in (*vector_stores.api.bind(here.server.services), *file_batches.api.bind(here.server.services)):
        if (operation.method, operation.path.endswith("/{workspace_id}" + route.path)) == (route.method, True):
            return request_for(operation, ids)
    if route.method == "POST" and route.path == "/files":
        return {}, {"Content-Type": "multipart/form-data; boundary=edge"}, UPLOAD
    body = BODIES.get(route.path) if route.method == "POST" else None
    return {}, JSON, b"" if body is None else json.dumps(body).encode()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.contract("XM-19")
async def test_every_path_lets_in_exactly_whom_it_declares(database: Database) -> None:
    wrong: list[str] = []
    async with ground(database) as here:
        start = here.server.start
        base = f"/{start.project_id}/default/v1"
        workspace = {"X-Xerotier-Workspace": start.workspace_id}
        ids = {**here.ids, **await answered(here), "model": "holdfast-extractive"}
        served: list[tuple[EndpointRoute[Any], dict[str, str]]] = [
            *((route, {}) for route in routes(here.server.services, "embedder")),
            *((route, ANTHROPIC) for route in anthropic.routes(here.server.services)),
        ]
        for route, wire in served:
            for credential in here.credentials:
                want = expected(DOOR, credential, route.method, names_things=True, in_first=True)
                if want.status == "ok":
                    want = expected(route.access, credential, route.method, names_things=True, in_first=True)
                asked = dict(ids)
                if want.status == "ok" and route.method == "DELETE":
                    # Who may delete things deletes none here.
                    asked |= dict.fromkeys(re.findall(r"\{(\w+)\}", route.path)[-1:], "nothing")
                params, headers, body = request_of(here, route, asked)
                answer = await ask(
                    here.app,
                    route.method,
                    base + filled(route.path, asked),
                    {**headers, **workspace, **wire, **credential.headers},
                    params=params,
                    body=body,
                )
                fine = (409, 404) if route.method == "DELETE" or "{model}" in route.path else (409,)
                problem = verdict(want, answer, fine)
                if problem is not None:
                    wrong.append(f"{route.method} {route.path} with {credential.name} {problem}")
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:60])


def naming(here: Ground, foreign: dict[str, str]) -> list[tuple[str, str, dict[str, Any] | None]]:
    """Requests that each name one foreign thing, in the path or in the body."""
    hello = [{"role": "user", "content": "Hello"}]
    search = {"type": "file_search", "vector_store_ids": [foreign["vector_store_id"]]}
    by_path = []
    for route in routes(here.server.services, "embedder"):
        if "{" in route.path and not route.path.startswith("/models"):
            _, _, body = request_of(here, route, foreign)
            by_path.append((route.method, filled(route.path, foreign), json.loads(body) if body else None))
    return [
        *by_path,
        ("POST", "/responses", {"model": "any", "input": "Hi", "previous_response_id": foreign["response_id"]}),
        ("POST", "/responses", {"model": "any", "input": "Hi", "conversation": foreign["conversation_id"]}),
        ("POST", "/responses", {"model": "any", "input": [{"type": "item_reference", "id": foreign["item_id"]}]}),
        ("POST", "/responses", {"model": "any", "input": "Hi", "tools": [search]}),
        ("POST", "/chat/completions", {"model": "any", "messages": hello, "tools": [search]}),
        ("POST", "/vector_stores", {"name": "planted", "file_ids": [foreign["document_id"]]}),
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("whose", ["another tenant's", "another workspace's"])
async def test_foreign_ids_are_not_found(database: Database, whose: str) -> None:
    wrong: list[str] = []
    async with ground(database) as here:
        server = here.server
        foreign = {**here.ids, **await answered(here)}
        if whose == "another tenant's":
            other = await server.another_tenant("Thieves")
            key = await server.mint(owner=other.owner, project_id=other.project_id)
            project_id, workspace_id = other.project_id, other.workspace_id
        else:
            second = await server.services.workspaces.create(server.owner, server.start.project_id, "Second")
            # It may see both: what it names stays in the workspace of the header.
            key = await server.mint()
            project_id, workspace_id = server.start.project_id, second.id
        headers = {**JSON, **bearer(key), "X-Xerotier-Workspace": workspace_id}
        before = await server.services.database.read(counts)
        for method, path, body in naming(here, foreign):
            raw = b"" if body is None else json.dumps(body).encode()
            answer = await ask(here.app, method, f"/{project_id}/default/v1{path}", headers, body=raw)
            named = answer.status == 400 and str(answer.json()["error"]["param"]).startswith("file_ids")
            if answer.status != 404 and not named:
                wrong.append(f"{method} {path} {body} is answered {answer.status}: {answer.text[:200]}")
        assert await server.services.database.read(counts) == before
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong)


async def answered(here: Ground) -> dict[str, str]:
    """The ids of a stored response and of a conversation with an item in the first workspace."""
    start = here.server.start
    owner = next(each for each in here.credentials if each.name == "project key")
    headers = {**JSON, **owner.headers, "X-Xerotier-Workspace": start.workspace_id}
    base = f"/{start.project_id}/default/v1"
    made = []
    for path in ("/responses", "/conversations"):
        answer = await ask(here.app, "POST", base + path, headers, body=json.dumps(BODIES[path]).encode())
        assert answer.status == 200, answer.text
        made.append(str(answer.json()["id"]))
    items = await ask(here.app, "GET", f"{base}/conversations/{made[1]}/items", headers)
    return {"response_id": made[0], "conversation_id": made[1], "item_id": str(items.json()["data"][0]["id"])}
