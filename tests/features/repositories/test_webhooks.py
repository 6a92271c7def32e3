"""Webhooks: only who knows the secret is heard, each delivery once, and all that is believed is that things changed."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Invalid
from holdfast.features.repositories import store
from holdfast.features.repositories.hosts.webhooks import WebhookRefused, Webhooks
from holdfast.features.repositories.model import Repository
from holdfast.storage.database import Database
from tests.features.repositories.hosted import Hosted, hosted
from tests.support.clock import MovableClock
from tests.support.properties import examples

SECRET = "a secret with ümlaut"
HUB = "https://github.com/octo/tides.git"
LAB = "https://gitlab.com/sea/nested/tides.git"


@pytest.fixture
async def world(database: Database, clock: MovableClock, tmp_path: Path) -> Hosted:
    return await hosted(database, clock, tmp_path)


@pytest.fixture
async def on_sqlite(sqlite_database: Database, clock: MovableClock, tmp_path: Path) -> Hosted:
    return await hosted(sqlite_database, clock, tmp_path)


async def signed(world: Hosted, location: str = HUB) -> tuple[Repository, Webhooks]:
    """A repository that takes webhooks."""
    await world.keep_secret("HOOK", SECRET)
    added = await world.add(location)
    repository = await world.repositories.sign_webhooks(world.principal, added.slug, "HOOK")
    return repository, Webhooks(world.database, world.secrets, world.repositories, world.clock)


def payload(name: str = "octo/tides", **more: Any) -> bytes:
    return json.dumps({"repository": {"id": 1, "full_name": name}, "ref": "refs/heads/main", **more}).encode()


def from_github(body: bytes, event: str = "push", delivery: str = "d-1", secret: str = SECRET) -> dict[str, str]:
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"X-GitHub-Event": event, "X-GitHub-Delivery": delivery, "X-Hub-Signature-256": f"sha256={signature}"}


def from_gitlab(event: str = "Push Hook", secret: str = SECRET, **more: str) -> dict[str, str]:
    shown = secret.encode().decode("latin-1")
    return {"X-Gitlab-Event": event, "X-Gitlab-Token": shown, **{k.replace("_", "-"): v for k, v in more.items()}}


@pytest.mark.contract("KS-2")
@pytest.mark.parametrize("event", ["push", "pull_request", "pull_request_review", "issues", "issue_comment", "release"])
async def test_a_signed_delivery_queues_a_sync(event: str, on_sqlite: Hosted) -> None:
    repository, webhooks = await signed(on_sqlite)
    receipt = await webhooks.receive(repository.id, from_github(payload(), event), payload())
    assert receipt.outcome == "queued"
    assert await on_sqlite.queued() == [{"repository_id": repository.id, "trigger": "webhook"}]
    kept = await on_sqlite.database.read(lambda tx: store.by_id(tx, repository.id))
    assert kept is not None
    assert (kept.state, kept.job_id) == ("queued", receipt.job_id)


@pytest.mark.contract("KS-2")
async def test_a_delivery_that_comes_again_has_no_second_effect(world: Hosted) -> None:
    repository, webhooks = await signed(world)
    first = await webhooks.receive(repository.id, from_github(payload()), payload())
    await world.database.write(lambda tx: world.jobs.cancel(tx, str(first.job_id)))
    again = await webhooks.receive(repository.id, from_github(payload()), payload())
    assert (again.outcome, again.job_id) == ("repeated", None)
    # Whoever recorded it cannot give it another id, which the signature does not cover.
    recorded = await webhooks.receive(repository.id, from_github(payload(), delivery="d-2"), payload())
    assert recorded.outcome == "repeated"
    assert await world.queued() == []
    other = payload(after="b")
    assert (await webhooks.receive(repository.id, from_github(other, delivery="d-3"), other)).outcome == "queued"


async def test_a_burst_becomes_one_sync(world: Hosted) -> None:
    repository, webhooks = await signed(world)
    jobs = set()
    for number in range(20):
        body = payload(after=str(number))
        jobs.add((await webhooks.receive(repository.id, from_github(body, delivery=f"d-{number}"), body)).job_id)
    assert len(jobs) == 1
    assert len(await world.queued()) == 1


@pytest.mark.contract("KS-2")
async def test_whatever_is_wrong_the_refusal_is_the_same(world: Hosted) -> None:
    repository, webhooks = await signed(world)
    unsigned = await world.add("https://github.com/octo/other.git")
    body = payload()
    right = from_github(body)
    wrong: list[tuple[str, Mapping[str, str], bytes]] = [
        ("repo_nothing", right, body),
        (unsigned.id, right, body),
        (repository.id, {}, body),
        (repository.id, {**right, "X-Hub-Signature-256": ""}, body),
        (repository.id, {**right, "X-Hub-Signature-256": right["X-Hub-Signature-256"][7:]}, body),
        (repository.id, {**right, "X-Hub-Signature-256": right["X-Hub-Signature-256"][:-1]}, body),
        (repository.id, {**right, "X-Hub-Signature-256": right["X-Hub-Signature-256"].upper()}, body),
        (repository.id, {**right, "X-Hub-Signature-256": "sha256=ü"}, body),
        (repository.id, from_github(body, secret="another"), body),
        (repository.id, right, body + b" "),
        (repository.id, from_gitlab(), body),
        (repository.id, {"X-GitHub-Event": "ping", "X-GitHub-Delivery": "d"}, body),
    ]
    messages = set()
    for repository_id, headers, sent in wrong:
        with pytest.raises(WebhookRefused) as refused:
            await webhooks.receive(repository_id, headers, sent)
        messages.add((refused.value.message, refused.value.status, refused.value.code))
    assert len(messages) == 1
    await world.repositories.sign_webhooks(world.principal, repository.slug, None)
    with pytest.raises(WebhookRefused):
        await webhooks.receive(repository.id, right, body)


async def test_a_secret_that_was_cleared_opens_nothing(on_sqlite: Hosted) -> None:
    repository, webhooks = await signed(on_sqlite)

    def clear(tx: Any) -> None:
        tx.execute("UPDATE repository SET webhook_secret = 'GONE' WHERE id = :id", {"id": repository.id})

    await on_sqlite.database.write(clear)
    with pytest.raises(WebhookRefused):
        await webhooks.receive(repository.id, from_github(payload()), payload())


async def test_a_ping_and_other_events_have_no_effect(on_sqlite: Hosted) -> None:
    repository, webhooks = await signed(on_sqlite)
    ping = json.dumps({"zen": "Design for failure.", "hook_id": 1}).encode()
    assert (await webhooks.receive(repository.id, from_github(ping, "ping"), ping)).outcome == "pong"
    for event in ("star", "workflow_run", "", "PUSH ME"):
        body = payload(action=event)
        assert (await webhooks.receive(repository.id, from_github(body, event), body)).outcome == "ignored"
    assert await on_sqlite.queued() == []


async def test_one_repository_cannot_speak_for_another(on_sqlite: Hosted) -> None:
    repository, webhooks = await signed(on_sqlite)
    for body in (payload("octo/other"), b"{}", b"[]", b"", b"not json", b"payload=%ff", b"payload", payload("")):
        with pytest.raises(Invalid):
            await webhooks.receive(repository.id, from_github(body), body)
    assert await on_sqlite.queued() == []
    named = payload("Octo/Tides")
    assert (await webhooks.receive(repository.id, from_github(named), named)).outcome == "queued"


async def test_a_form_is_read_like_json(on_sqlite: Hosted) -> None:
    repository, webhooks = await signed(on_sqlite)
    body = urlencode({"payload": payload(title="Über + & =").decode()}).encode()
    assert (await webhooks.receive(repository.id, from_github(body), body)).outcome == "queued"


@pytest.mark.contract("KS-2")
async def test_gitlab_shows_the_secret_and_names_its_retries(world: Hosted) -> None:
    repository, webhooks = await signed(world, LAB)
    body = json.dumps({"object_kind": "push", "project": {"path_with_namespace": "sea/nested/tides"}}).encode()
    for wrong in (from_gitlab(secret="other"), from_gitlab() | {"X-Gitlab-Token": ""}, from_github(body)):
        with pytest.raises(WebhookRefused):
            await webhooks.receive(repository.id, wrong, body)
    first = from_gitlab(Idempotency_Key="k-1", X_Gitlab_Event_UUID="u")
    assert (await webhooks.receive(repository.id, first, body)).outcome == "queued"
    assert (await webhooks.receive(repository.id, first, body)).outcome == "repeated"
    # The same words again are news when GitLab says so: a branch may go back and forth.
    second = from_gitlab("Merge Request Hook", Idempotency_Key="k-2", X_Gitlab_Event_UUID="u")
    assert (await webhooks.receive(repository.id, second, body)).outcome == "queued"
    assert (await webhooks.receive(repository.id, from_gitlab("Pipeline Hook"), body)).outcome == "ignored"
    assert (await webhooks.receive(repository.id, from_gitlab(), body)).outcome == "queued"
    assert (await webhooks.receive(repository.id, from_gitlab(), body)).outcome == "repeated"
    wrong_name = json.dumps({"project": {"path_with_namespace": "sea/other"}}).encode()
    with pytest.raises(Invalid, match="not right"):
        await webhooks.receive(repository.id, from_gitlab(), wrong_name)


async def test_a_server_that_is_neither_may_use_githubs_way(on_sqlite: Hosted) -> None:
    repository, webhooks = await signed(on_sqlite, "https://git.example.org/octo/tides.git")
    assert repository.host == ""
    assert (await webhooks.receive(repository.id, from_github(payload()), payload())).outcome == "queued"


_NAMES = st.sampled_from(
    [
        "X-GitHub-Event",
        "X-GitHub-Delivery",
        "X-Hub-Signature-256",
        "X-Hub-Signature",
        "X-Gitlab-Token",
        "X-Gitlab-Event",
        "Idempotency-Key",
        "Content-Type",
    ]
)
_VALUES = st.one_of(
    st.text(max_size=80),
    st.sampled_from(["push", "ping", "Push Hook", "sha256=", "sha256=" + "0" * 64, "sha1=" + "0" * 40, "\ud800"]),
)


@given(headers=st.dictionaries(_NAMES, _VALUES), body=st.binary(max_size=400))
@examples(120)
async def test_no_headers_get_in_without_the_secret(
    headers: dict[str, str], body: bytes, on_sqlite: Hosted, hooks: tuple[Repository, Webhooks]
) -> None:
    repository, webhooks = hooks
    with pytest.raises(WebhookRefused):
        await webhooks.receive(repository.id, headers, body)
    assert await on_sqlite.queued() == []


@given(body=st.binary(max_size=400), event=st.text(max_size=30), delivery=st.text(max_size=300))
@examples(120)
async def test_a_signed_delivery_of_anything_is_answered(
    body: bytes, event: str, delivery: str, hooks: tuple[Repository, Webhooks]
) -> None:
    repository, webhooks = hooks
    try:
        receipt = await webhooks.receive(repository.id, from_github(body, event, delivery), body)
        assert receipt.outcome in ("ignored", "pong")
        await webhooks.receive(repository.id, from_github(body, "push", delivery), body)
    except Invalid as problem:
        assert problem.fields[0].field == "payload"
    named = payload(nonce=delivery + event)
    receipt = await webhooks.receive(repository.id, from_github(named, "push", delivery), named)
    assert receipt.outcome in ("queued", "repeated")


@pytest.fixture
async def hooks(on_sqlite: Hosted) -> tuple[Repository, Webhooks]:
    return await signed(on_sqlite)
