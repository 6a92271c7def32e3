"""The fourth matrix: live events by topic, webhooks and pages, with every kind of credential."""

import hashlib
import hmac
import json
from itertools import product

import pytest

from holdfast.core.access import Access
from holdfast.features.repositories.hosts.webhooks import PATH
from holdfast.registry.topics import Topics
from holdfast.storage.database import Database
from tests.support.access.matrix import ground, verdict
from tests.support.access.oracle import Expected, expected
from tests.support.asgi import ask

# What each noun's own tools ask for, by the contract (XM-10): whoever may not read a thing is not told of it.
EXEC = ("agent", "approval", "catalog", "grant", "invocation", "session")
INTEL = ("artifact", "decision", "milestone", "relation")
READ = Access("workspace", ("read", "inference"))
READ_EXEC = Access("workspace", ("read", "inference"), tier="exec")
READ_INTEL = Access("workspace", ("read", "inference"), tier="intel")
PROJECT = Access("project", ("read", "inference"))
AUDIT = Access("organization", "management", role="admin")
WIDER = {"audit": AUDIT, "endpoint": PROJECT, "usage": PROJECT}
"""What concerns more than a workspace."""


def _both(first: Expected, second: Expected) -> Expected:
    """What is answered where two things are needed: who asks comes before what they lack, and that before what is."""
    for status in (401, 403, 404):
        found = [each for each in (first, second) if each.status == status]
        if found:
            return Expected(found[0].status, tuple(word for each in found for word in each.words))
    return first


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_every_topic_is_followed_by_exactly_who_may_read_it(database: Database) -> None:
    wrong: list[str] = []
    async with ground(database) as here:
        paths = {f"/api/workspaces/{here.server.start.workspace_id}/events": True, "/api/events": False}
        for path, noun in product(paths, (*here.server.services[Topics].nouns, None)):
            access = READ_INTEL if noun in INTEL else READ_EXEC if noun in EXEC else WIDER.get(noun or "", READ)
            params = {} if noun is None else {"topics": f"{noun}.*"}
            for credential in here.credentials:
                # Following at all needs what reading needs; the topic may need more.
                named = {"names_things": paths[path], "in_first": paths[path]}
                want = _both(*(expected(each, credential, "GET", **named) for each in (READ, access)))
                answer = await ask(here.app, "GET", path, credential.headers, params=params, follow=False)
                problem = verdict(want, answer)
                if problem is not None:
                    wrong.append(f"{path} {noun} with {credential.name} {problem}")
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:60])


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_webhook_is_believed_by_its_signature_and_by_no_credential(database: Database) -> None:
    wrong: list[str] = []
    async with ground(database) as here:
        server = here.server
        await server.services.repositories.sign_webhooks(server.owner, here.ids["slug"], here.ids["secret_name"])
        repository = await server.services.repositories.get(server.owner, here.ids["slug"])
        body = json.dumps({"zen": "Keep it"}).encode()
        signature = "sha256=" + hmac.new(b"a secret value", body, hashlib.sha256).hexdigest()
        event = {"X-GitHub-Event": "ping", "Content-Type": "application/json"}
        deliveries = {
            "signed": ({**event, "X-Hub-Signature-256": signature}, Expected("ok")),
            "signed by somebody else": ({**event, "X-Hub-Signature-256": "sha256=" + "0" * 64}, Expected(404)),
            "unsigned": (event, Expected(404)),
        }
        for credential in here.credentials:
            for name, (headers, want) in deliveries.items():
                sent = {**headers, **credential.headers, "X-GitHub-Delivery": f"{name} {credential.name}"}
                answer = await ask(here.app, "POST", PATH + repository.id, sent, body=body)
                problem = verdict(want, answer)
                if problem is not None:
                    wrong.append(f"{name} with {credential.name} {problem}")
                lost = await ask(here.app, "POST", PATH + "repo_nothing", sent, body=body)
                if lost.status != 404 or (want.status == 404 and lost.json()["error"]["message"] not in answer.text):
                    wrong.append(f"{name} with {credential.name} tells one repository from another")
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:60])


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_pages_are_for_signed_in_people_and_show_their_own_organization(database: Database) -> None:
    wrong: list[str] = []
    async with ground(database) as here:
        first = here.server.start.workspace_id
        for credential in here.credentials:
            answer = await ask(here.app, "GET", "/", credential.headers)
            signed_in = credential.kind == "person" and "Cookie" in credential.headers
            if answer.status != (200 if signed_in else 303):
                wrong.append(f"{credential.name} is answered {answer.status}")
            elif (first in answer.text) != (signed_in and credential.own_tenant):
                wrong.append(f"{credential.name} sees {answer.text[:200]}")
            manages = signed_in and credential.own_tenant and credential.role != "member"
            keys = await ask(here.app, "GET", "/settings/keys", credential.headers)
            if ("victim" in keys.text) != manages:
                wrong.append(f"{credential.name} {'misses' if manages else 'sees'} the organization's keys")
    assert not wrong, f"{len(wrong)} wrong:\n" + "\n".join(wrong[:60])
