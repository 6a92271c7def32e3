"""The weekly budget: only `ask` spends it, it is checked before the model is asked, and it begins anew on Monday."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.clock import parse_time
from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.features.usage.model import UsageFilter
from holdfast.storage.database import Database
from tests.fakes.llm.model import KEY, FakeModel, says
from tests.fakes.llm.model import model as fake_model
from tests.support.clock import MovableClock
from tests.surfaces.keystone.harness import Keystone, serve_keystone
from tests.surfaces.keystone.ingested import WHY, ingest, small_repository

# Each test starts processes that read repositories.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.contract("KS-6"),
]

SUNDAY = parse_time("2026-11-15T23:59:59.999Z", "t")
MONDAY = parse_time("2026-11-16T00:00:00Z", "t")
ASKED = {"projectSlugs": ["my-api"], "question": WHY}
FREE: list[tuple[str, dict[str, Any]]] = [
    ("list_projects", {}),
    ("search_memory", {"projectSlugs": ["my-api"], "query": "sessions"}),
    ("get_project_status", {"projectSlug": "my-api"}),
]


async def connect(at: Keystone, model: FakeModel) -> None:
    """Put the model behind the project's default endpoint; each of its answers takes 15 tokens."""
    model.otherwise = says("Sessions are in the database because signed cookies could not be revoked [1].")
    await at.services.secrets.set(at.owner, at.start.workspace_id, "MODEL_KEY", KEY)
    upstream = EndpointUpstream(base_url=model.url, model="fake-model", key_secret="MODEL_KEY")
    await at.services.endpoints.put(at.owner, at.start.project_id, "default", [upstream])


def questions(model: FakeModel) -> int:
    """How often the model was asked; synthesis talks to it too."""
    return sum(WHY in json.dumps(request) for request in model.requests)


async def test_a_spent_budget_is_told_with_the_moment_it_returns(database: Database, tmp_path: Path) -> None:
    clock = MovableClock(SUNDAY)
    repository = small_repository(tmp_path / "my-api")
    async with (
        fake_model() as model,
        serve_keystone(database, clock=clock, data_dir=tmp_path, weekly_token_limit=30) as at,
    ):
        await connect(at, model)
        await ingest(at.services, at.owner, at.start.workspace_id, repository, "my-api")
        person = replace(at.owner, actor=at.start.owner_id, proof="session")
        async with at.http(await at.key(owner=person)) as first, at.http(await at.key(owner=person)) as second:
            for http in (first, second):
                for name, arguments in FREE:
                    assert "isError" not in await http.result(name, arguments)
                answer = await http.result("ask", ASKED)
                assert "could not be revoked [1]" in answer["content"][0]["text"]
            assert questions(model) == 2
            for http in (first, second):
                refused = await http.call("ask", ASKED)
                result = refused.json()["result"]
                assert refused.status_code == 200 and result["isError"] is True
                assert "budget of 30 tokens" in result["content"][0]["text"]
                assert "2026-11-16T00:00:00.000Z" in result["content"][0]["text"]
            assert questions(model) == 2
            for name, arguments in FREE:
                assert "isError" not in await first.result(name, arguments)
            async with at.http(await at.key()) as somebody_else:
                assert "isError" not in await somebody_else.result("ask", ASKED)
            clock.millis = MONDAY
            assert "isError" not in await first.result("ask", ASKED)
        log = await at.services.usage.entries(at.owner, UsageFilter(source="mcp"))
        assert [(entry.operation, entry.tokens_in, entry.tokens_out) for entry in log.items] == [("ask", 10, 5)] * 4
        assert {entry.at for entry in log.items} == {SUNDAY, MONDAY}


async def test_without_a_model_nothing_is_spent_and_nothing_refused(database: Database, tmp_path: Path) -> None:
    repository = small_repository(tmp_path / "my-api")
    async with serve_keystone(database, data_dir=tmp_path, weekly_token_limit=1) as at, at.http(await at.key()) as http:
        await ingest(at.services, at.owner, at.start.workspace_id, repository, "my-api")
        for _ in range(3):
            assert "revoked" in (await http.result("ask", ASKED))["content"][0]["text"]
        log = await at.services.usage.entries(at.owner)
        assert [(entry.source, entry.tokens_in) for entry in log.items] == [("mcp", 0)] * 3
