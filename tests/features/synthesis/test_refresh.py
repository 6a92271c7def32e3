"""Owns the proof of refreshing: unchanged findings stay unwritten, and what a person touched is never overwritten."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.features.artifacts.model import ArtifactNotFound, ArtifactReference
from holdfast.features.intelligence.model import DecisionEdit, DecisionFilter, MilestoneEdit, MilestoneNotFound
from holdfast.features.repositories.model import SYNTHESIS_KIND
from holdfast.storage.database import Database
from tests.features.synthesis.shop import BOOK, SECOND, again, findings, last_job, shop, somebody, synthesised
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld, repository_world

# Each test starts processes that read repositories.
pytestmark = pytest.mark.slow


@pytest.fixture
async def here(database: Database, clock: MovableClock, tmp_path: Path) -> AsyncIterator[RepositoryWorld]:
    async with repository_world(database, clock, tmp_path / "data", synthesis=True) as world:
        yield world


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return shop(tmp_path / "shop")


async def written(here: RepositoryWorld) -> list[dict[str, object]]:
    """Everything that a needless write would change: versions, and the order of changes of the index."""
    return await here.services.database.read(
        lambda tx: [
            *map(dict, tx.all("SELECT artifact_id, version FROM artifact_version ORDER BY artifact_id, version")),
            *map(dict, tx.all("SELECT type, id, part, change FROM search_entry ORDER BY type, id, part")),
            *map(dict, tx.all("SELECT kind, key, digest, written, updated_at FROM repository_finding ORDER BY 1, 2")),
        ]
    )


@pytest.mark.contract("KS-8")
async def test_what_did_not_change_is_not_written_again(here: RepositoryWorld, repo: GitRepo) -> None:
    await synthesised(here, repo)
    before = await written(here)
    here.clock.advance(seconds=3_600)
    job = await again(here)
    assert job.result == {"written": 0}
    assert await written(here) == before
    assert (await here.get("shop")).synthesis_status == "completed"


async def test_a_job_without_news_does_nothing(here: RepositoryWorld, repo: GitRepo) -> None:
    row = await synthesised(here, repo)
    here.clock.advance(seconds=3_600)
    payload = {"repository_id": row.id}
    job_id = await here.services.database.write(
        lambda tx: here.services.jobs.enqueue(tx, SYNTHESIS_KIND, payload, workspace_id=row.workspace_id, key=row.id)
    )
    assert (await here.job(job_id)).result == {"written": 0}
    assert (await here.get("shop")).synthesised_at == row.synthesised_at


@pytest.mark.contract("KS-8")
async def test_new_commits_change_only_what_they_touch(here: RepositoryWorld, repo: GitRepo) -> None:
    await synthesised(here, repo)
    before = await findings(here)
    repo.commit(
        "Store prices in one table instead of three\n\nBecause joins were slow.", {"docs/prices.md": "Prices.\n"}
    )
    repo.tag("v0.3.0")
    await here.sync("shop")
    await last_job(here)
    after = await findings(here)
    new = after.keys() - before.keys()
    assert new == {f"commit:{repo.head}", "tag:v0.3.0"}
    changed = {key for key in before if after[key].digest != before[key].digest}
    assert changed == {"architecture", "components", "owners"}
    row = await here.get("shop")
    assert (row.synthesis_status, row.synthesised_head) == ("completed", repo.head)


@pytest.mark.contract("KS-8")
async def test_a_persons_edits_are_never_overwritten(here: RepositoryWorld, repo: GitRepo) -> None:
    await synthesised(here, repo)
    before = await findings(here)
    me, workspace, services = somebody(here), here.workspace_id, here.services
    page, decision = before["architecture"].target_id, before["adr:docs/adr/0002-cents.md"].target_id
    milestone = before["tag:v0.2.0"].target_id
    await services.artifacts.update(me, workspace, ArtifactReference(page), "# Ours now")
    await services.intelligence.decisions.edit(me, workspace, decision, DecisionEdit(rationale="Our own words."))
    await services.intelligence.milestones.edit(me, workspace, milestone, MilestoneEdit(title="The big one"))
    repo.run("tag", "-f", "v0.2.0", "HEAD~1")
    repo.commit(
        "Change everything",
        {"README.md": "# Shop\n\nSomething else altogether.\n", "docs/adr/0002-cents.md": SECOND + "\nMore.\n"},
    )
    await again(here)
    assert (await services.artifacts.read(me, workspace, page)).content == "# Ours now"
    assert (await services.intelligence.decisions.get(me, workspace, decision)).rationale == "Our own words."
    assert (await services.intelligence.milestones.get(me, workspace, milestone)).title == "The big one"
    after = await findings(here)
    edited = {key for key, finding in after.items() if finding.state == "edited"}
    assert edited == {"architecture", "adr:docs/adr/0002-cents.md", "tag:v0.2.0"}
    await again(here)
    assert (await services.artifacts.read(me, workspace, page)).content == "# Ours now"


@pytest.mark.contract("KS-8")
async def test_what_a_person_took_away_stays_away(here: RepositoryWorld, repo: GitRepo) -> None:
    await synthesised(here, repo)
    before = await findings(here)
    me, workspace, services = somebody(here), here.workspace_id, here.services
    await services.artifacts.delete(me, workspace, before["owners"].target_id)
    await services.intelligence.milestones.delete(me, workspace, before["tag:v0.1.0"].target_id)
    repo.commit("Change the book", {"src/shop/ledger/book.py": BOOK + "\n# more\n"}, author="Somebody New")
    await again(here)
    after = await findings(here)
    assert {key for key, finding in after.items() if finding.state == "dismissed"} == {"owners", "tag:v0.1.0"}
    with pytest.raises(ArtifactNotFound):
        await services.artifacts.find(me, workspace, ArtifactReference(identifier="repo-shop-owners"))
    with pytest.raises(MilestoneNotFound):
        await services.intelligence.milestones.get(me, workspace, before["tag:v0.1.0"].target_id)


async def test_a_page_of_somebodys_own_keeps_its_name(here: RepositoryWorld, repo: GitRepo) -> None:
    from holdfast.features.artifacts.model import NewArtifact

    new = NewArtifact("repo-shop-glossary", "My words", "text/markdown", "Mine.")
    mine = await here.services.artifacts.create(somebody(here), here.workspace_id, new)
    await synthesised(here, repo)
    found = (await findings(here))["glossary"]
    assert (found.state, found.target_id) == ("edited", mine.id)
    assert (await here.services.artifacts.read(here.principal, here.workspace_id, mine.id)).content == "Mine."


async def test_a_decision_is_in_force_again_when_its_revert_is_taken_back(here: RepositoryWorld, repo: GitRepo) -> None:
    await synthesised(here, repo)
    revert = repo.run("log", "--format=%H", "--grep=^Revert")
    repo.commit(f'Revert "Revert "Switch sums to a cache""\n\nThis reverts commit {revert}.\n\nThe sums agree now.')
    await here.sync("shop")
    await last_job(here)
    page = await here.services.intelligence.decisions.page(here.principal, here.workspace_id, DecisionFilter())
    status = {decision.title: decision.status for decision in page.items}
    assert status["Switch sums to a cache"] == "accepted"
    assert status["Revert: Switch sums to a cache"] == "superseded"


async def test_what_the_history_no_longer_says_goes(here: RepositoryWorld, repo: GitRepo) -> None:
    await synthesised(here, repo)
    before = await findings(here)
    repo.run("reset", "-q", "--hard", "v0.1.0")
    repo.run("tag", "-d", "v0.2.0")
    await here.sync("shop")
    await last_job(here)
    after = await findings(here)
    assert {key for key in after if ":" in key} == {"adr:docs/adr/0001-floats.md", "tag:v0.1.0"}
    page = await here.services.intelligence.decisions.page(here.principal, here.workspace_id, DecisionFilter())
    assert [decision.title for decision in page.items] == ["Keep sums as floats"]
    with pytest.raises(MilestoneNotFound):
        await here.services.intelligence.milestones.get(
            here.principal, here.workspace_id, before["tag:v0.2.0"].target_id
        )
    assert await here.services.search.check() == []


@pytest.mark.contract("KS-8")
async def test_removing_a_repository_leaves_only_what_people_made_their_own(
    here: RepositoryWorld, repo: GitRepo
) -> None:
    await synthesised(here, repo)
    before = await findings(here)
    decision = before["adr:docs/adr/0002-cents.md"].target_id
    await here.services.intelligence.decisions.edit(
        somebody(here), here.workspace_id, decision, DecisionEdit(rationale="Our own words.")
    )
    await here.services.repositories.remove(here.principal, "shop")
    page = await here.services.intelligence.decisions.page(here.principal, here.workspace_id, DecisionFilter())
    assert [kept.id for kept in page.items] == [decision]
    timeline = await here.services.intelligence.milestones.timeline(here.principal, here.workspace_id)
    assert timeline.items == []
    assert await here.services.artifacts.list(here.principal, here.workspace_id) == ([], 0)
    ties = await here.services.intelligence.relations.page(here.principal, here.workspace_id)
    assert ties.items == []
    assert await here.services.search.check() == []


async def test_a_cancelled_synthesis_is_made_up_for_by_the_next(here: RepositoryWorld, repo: GitRepo) -> None:
    began = asyncio.Event()
    collect = here.services.synthesis._collecting.collect

    async def stuck(*arguments: object) -> object:
        began.set()
        await asyncio.Event().wait()
        raise AssertionError("nobody ends the waiting")

    here.services.synthesis._collecting.collect = stuck  # type: ignore[method-assign,assignment]
    row = await here.add(repo, slug="shop")
    async with asyncio.timeout(30):
        await began.wait()
    assert (await here.get("shop")).synthesis_status == "running"
    await here.services.repositories.cancel(here.principal, "shop")
    assert (await last_job(here)).state == "cancelled"
    assert (await here.get("shop")).synthesis_status == "pending"
    assert await findings(here) == {}
    here.services.synthesis._collecting.collect = collect  # type: ignore[method-assign]
    await here.services.synthesis.start(here.principal, "shop")
    assert (await last_job(here)).state == "succeeded"
    done = await here.get("shop")
    assert (done.synthesis_status, done.synthesised_head) == ("completed", row.head)


async def test_a_synthesis_that_was_cut_off_goes_on_where_it_was(here: RepositoryWorld, repo: GitRepo) -> None:
    publish = here.services.synthesis._publishing.publish
    tried: list[str] = []

    def failing(*arguments: object) -> int:
        kind = str(arguments[3])
        tried.append(kind)
        if kind == "decision" and tried.count("decision") == 1:
            raise RuntimeError("the power went")
        return publish(*arguments)  # type: ignore[arg-type]

    here.services.synthesis._publishing.publish = failing  # type: ignore[method-assign,assignment]
    await synthesised(here, repo)
    job = await last_job(here)
    assert (job.state, job.attempts) == ("succeeded", 2)
    assert tried.count("architecture") == 1 and tried.count("decision") == 2 and tried.count("milestone") == 1
    page = await here.services.intelligence.decisions.page(here.principal, here.workspace_id, DecisionFilter())
    assert len(page.items) == 5
