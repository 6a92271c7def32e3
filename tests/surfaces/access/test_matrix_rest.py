"""The first matrix: every operation of the management API with every kind of credential."""

import asyncio
import re

import pytest

from holdfast.core.operations import Operation
from holdfast.server.routes import rest_operations
from holdfast.storage.database import Database
from tests.support.access.matrix import Ground, ground, verdict
from tests.support.access.oracle import Credential, Expected, expected
from tests.support.access.tenant import BODIES, filled, request_for
from tests.support.asgi import Answer, ask

WORKSPACE = "/api/workspaces/{workspace_id}"
# Rules beyond the declaration, each with tests of its own: nobody hands out more than they hold (a bundle is a key, and
# members make none), and nobody sets another's password. A refusal by them says so in these words.
OWN_RULES = {
    "PUT /api/users/{user_id}/password": ("somebody else's password",),
    "PATCH /api/keys/{key_id}": ("may do more than you",),
    f"POST {WORKSPACE}/client-bundles/{{client}}": ("may do more than you", "needs the role owner or admin"),
}
# Nothing was ever read of the tenant's repository: what is asked of its content is not there, for whoever may ask.
UNREAD = re.compile(r"/repositories/(\{slug\}/(tree|file|log|blame|commits|findings|synthesis)|search|files|ask)")


def asked_of(operation: Operation) -> tuple[bool, bool]:
    """Whether a request names something of the tenant by id, and whether it is in the first workspace."""
    body = str(BODIES.get(operation.body.__name__, "")) if operation.body is not None else ""
    # An agent and a session go by their ids alone, but are in their workspace all the same.
    in_first = any(name in operation.path for name in ("{workspace_id}", "{agent_id}", "{session_id}"))
    return "{" in operation.path or "{" in body.replace("{}", "").replace("{'", ""), in_first


def fine(operation: Operation) -> tuple[int, ...]:
    """Answers that are no refusal, where what was asked for cannot be done twice or is not there."""
    found = [409]
    if operation.method == "DELETE" or UNREAD.search(operation.path):
        found.append(404)
    if operation.path.startswith("/api/me/invitations"):
        # Nobody of these was invited.
        found.append(404)
    return tuple(found)


async def asked(ground: Ground, operation: Operation, credential: Credential, *, spare: bool) -> Answer:
    """One request; `spare` names a thing that does not exist, so that who may delete things deletes none."""
    ids = {**ground.ids}
    last = re.findall(r"\{(\w+)\}", operation.path)[-1:]
    if spare and operation.method == "DELETE" and last != ["workspace_id"]:
        ids |= dict.fromkeys(last, "nothing")
    params, headers, body = request_for(operation, ids)
    path = filled(operation.path, ids)
    return await ask(
        ground.app,
        operation.method,
        path,
        {**headers, **credential.headers},
        params=params,
        body=body,
        follow=operation.produces != "text/event-stream",
    )


async def wrong_with(here: Ground, operation: Operation) -> list[str]:
    """What is wrong with the answers of one operation."""
    names_things, in_first = asked_of(operation)
    wanted = {}
    for credential in here.credentials:
        want = expected(operation.access, credential, operation.method, names_things=names_things, in_first=in_first)
        if operation.path == "/api/session" and credential.name.endswith("by JWT"):
            # It is about the session of a browser, and there is none.
            want = Expected(401)
        wanted[credential.name] = want

    async def one(credential: Credential) -> str | None:
        want = wanted[credential.name]
        answer = await asked(here, operation, credential, spare=want.status == "ok")
        rules = OWN_RULES.get(f"{operation.method} {operation.path}", ())
        if want.status == "ok" and answer.status == 403 and any(rule in answer.text for rule in rules):
            return None
        problem = verdict(want, answer, fine(operation))
        return problem and f"{operation.method} {operation.path} with {credential.name} {problem}"

    allowed = [credential for credential in here.credentials if wanted[credential.name].status == "ok"]
    refused = [credential for credential in here.credentials if credential not in allowed]
    # Refusals change nothing and may come at once; what is allowed is done one after the other.
    found = list(await asyncio.gather(*map(one, refused)))
    if (operation.method, operation.path) != ("DELETE", WORKSPACE):
        found += [await one(credential) for credential in allowed]
    return [problem for problem in found if problem is not None]


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_every_operation_lets_in_exactly_who_its_declaration_says(database: Database) -> None:
    wrong: list[str] = []
    async with ground(database) as here:
        operations = list(rest_operations(here.server.services))
        # Deleting the workspace itself comes last: it takes everything along.
        operations.sort(key=lambda each: (each.method, each.path) == ("DELETE", WORKSPACE))
        for operation in operations:
            wrong += await wrong_with(here, operation)
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:160])
