"""Owns the proof of summaries by a model: citations that do not hold are left out, and a failure changes nothing."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.features.endpoints.model import EndpointUpstream
from holdfast.storage.database import Database
from tests.fakes.llm.model import KEY, FakeModel, Turn, model, says
from tests.features.synthesis.shop import again, findings, last_job, shop, synthesised
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld, repository_world

# Each test starts processes that read repositories.
pytestmark = pytest.mark.slow

GOOD = (
    'Shop "sells tea to restaurants" [1 "sells tea to restaurants"] and was written by aliens [99].\n\n'
    "It is run on the moon and cites nothing.\n\n"
    'It "runs on mainframes of the moon" [1 "runs on mainframes of the moon"].'
)


@pytest.fixture
async def upstream() -> AsyncIterator[FakeModel]:
    async with model() as fake:
        yield fake


@pytest.fixture
async def here(
    sqlite_database: Database, clock: MovableClock, tmp_path: Path, upstream: FakeModel
) -> AsyncIterator[RepositoryWorld]:
    async with repository_world(sqlite_database, clock, tmp_path / "data", synthesis=True) as world:
        workspace = await world.services.workspaces.get(world.principal, world.workspace_id)
        await world.services.secrets.set(world.principal, world.workspace_id, "MODEL_KEY", KEY)
        spec = EndpointUpstream(base_url=upstream.url, model="fake-model", key_secret="MODEL_KEY")
        await world.services.endpoints.put(world.principal, workspace.project_id, "default", [spec])
        yield world


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return shop(tmp_path / "shop")


@pytest.mark.contract("KS-8")
async def test_a_hallucinated_citation_is_left_out_with_what_it_carries(
    here: RepositoryWorld, repo: GitRepo, upstream: FakeModel
) -> None:
    upstream.otherwise = says(GOOD)
    await synthesised(here, repo)
    body = (await findings(here))["architecture"].body
    assert "## In short" in body
    assert re.search(r'## In short\n\n"[^"\n]*sells tea to restaurants[^"\n]*" \[1\]\n', body)
    assert "[99]" not in body and "moon" not in body and "aliens" not in body
    assert "*Left out, because no source bears it out: 1 citation, 3 statements.*" in body
    assert "## Layout" in body and "- [1] README.md#L3-L3" in body
    assert upstream.refused == []
    assert "Untrusted data" in upstream.requests[0]["messages"][1]["content"]


async def test_the_model_is_asked_again_only_when_facts_change(
    here: RepositoryWorld, repo: GitRepo, upstream: FakeModel
) -> None:
    upstream.otherwise = says(GOOD)
    await synthesised(here, repo)
    asked = len(upstream.requests)
    assert asked == 4
    job = await again(here)
    assert job.result == {"written": 0}
    assert len(upstream.requests) == asked
    repo.commit("Say more", {"README.md": "# Shop\n\nShop sells tea to restaurants and coffee to bars.\n"})
    await here.sync("shop")
    await last_job(here)
    assert len(upstream.requests) > asked
    assert "coffee to bars" in (await findings(here))["architecture"].body


async def test_without_an_answer_the_page_stands_by_itself_and_the_model_is_tried_again(
    here: RepositoryWorld, repo: GitRepo, upstream: FakeModel
) -> None:
    upstream.otherwise = Turn(status=400, body={"error": {"message": "no", "type": "x"}})
    row = await synthesised(here, repo)
    assert row.synthesis_status == "completed"
    body = (await findings(here))["architecture"].body
    assert "## In short" not in body and "## Layout" in body
    upstream.otherwise = says(GOOD)
    await again(here)
    assert "## In short" in (await findings(here))["architecture"].body


async def test_what_a_model_used_is_counted(here: RepositoryWorld, repo: GitRepo, upstream: FakeModel) -> None:
    upstream.otherwise = says(GOOD)
    await synthesised(here, repo)
    await here.services.usage.flush()
    rows = await here.services.database.read(
        lambda tx: tx.all("SELECT source, tokens_in, tokens_out FROM usage_log WHERE operation = 'synthesis'")
    )
    assert [(row["source"], row["tokens_in"], row["tokens_out"]) for row in rows] == [("synthesis", 10, 5)] * 4
