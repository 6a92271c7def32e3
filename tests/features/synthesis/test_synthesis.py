"""Owns the proof of what synthesis makes of a real repository, on both stores."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.features.intelligence.model import DecisionFilter
from holdfast.features.repositories.model import RepositoryNotFound
from holdfast.features.synthesis.model import AUTHOR
from holdfast.storage.database import Database
from tests.features.synthesis.shop import BOOK, README, findings, last_job, shop, synthesised
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld, repository_world
from tests.support.features.intelligence import person

# Each test starts processes that read repositories.
pytestmark = pytest.mark.slow


@pytest.fixture
async def here(database: Database, clock: MovableClock, tmp_path: Path) -> AsyncIterator[RepositoryWorld]:
    async with repository_world(database, clock, tmp_path / "data", synthesis=True) as world:
        yield world


@pytest.fixture
async def on_sqlite(sqlite_database: Database, clock: MovableClock, tmp_path: Path) -> AsyncIterator[RepositoryWorld]:
    """For what has nothing to do with the store."""
    async with repository_world(sqlite_database, clock, tmp_path / "data", synthesis=True) as world:
        yield world


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return shop(tmp_path / "shop")


@pytest.mark.contract("KS-8")
async def test_a_sync_is_followed_by_findings_of_every_kind(here: RepositoryWorld, repo: GitRepo) -> None:
    async with here.services.events.subscribe(["repository.synthesis"]) as events:
        row = await synthesised(here, repo)
        told = [(await events.get()).payload["status"]]
        while told[-1] != "completed":
            told.append((await events.get()).payload["status"])
    assert told[0] == "running"
    assert (row.synthesis_status, row.synthesis_progress, row.synthesised_head) == ("completed", 100, repo.head)
    assert row.synthesised_at == here.clock.now()
    found = await findings(here)
    assert {each.kind for each in found.values()} == {
        "architecture",
        "components",
        "hot_spots",
        "owners",
        "glossary",
        "decision",
        "milestone",
    }
    assert all(each.state == "derived" and each.citations for each in found.values())


async def page(here: RepositoryWorld, name: str) -> str:
    found = (await findings(here))[name]
    reading = await here.services.artifacts.read(here.principal, here.workspace_id, found.target_id)
    assert reading.artifact.identifier == f"repo-shop-{name.replace('_', '-')}"
    assert reading.artifact.title.endswith("(derived)")
    assert reading.content == found.body
    return reading.content or ""


@pytest.mark.contract("KS-8")
async def test_the_architecture_is_told_in_the_projects_own_words(on_sqlite: RepositoryWorld, repo: GitRepo) -> None:
    await synthesised(on_sqlite, repo)
    text = await page(on_sqlite, "architecture")
    assert "Shop sells tea to restaurants and keeps the books of every branch. [1]" in text
    assert "- [1] README.md#L3-L3" in text
    assert "`docs/` (2 files" in text and "what operators read" in text
    assert "`shop` → `shop.main:main`" in text
    assert "`orjson` (Python)" in text
    assert "Development: `uv sync`; `pytest -q`" in text
    assert "`make test`" in text
    assert "| python | 6 |" in text


@pytest.mark.contract("KS-8")
async def test_a_directory_is_not_described_by_a_file_in_it(on_sqlite: RepositoryWorld, repo: GitRepo) -> None:
    said = {
        "lib/sanitize.rs": "Takes escapes out of file names.",
        "lib/walk.rs": "Walks through trees.",
        "cli/mod.rs": "What people type.",
        "cli/flags.rs": "One flag each.",
    }
    files = {path: f"//! {doc}\n\npub fn run() {{}}\n" for path, doc in said.items()}
    badges = "![CI](https://ci.example/badge.svg) ![Version of it](https://v.example/b.svg) [\u4e2d\u6587] [Deutsch]"
    repo.commit("Walk", files | {"README.md": README.replace("# Shop\n", f"# Shop\n\n{badges}\n", 1)})
    await synthesised(on_sqlite, repo)
    text = await page(on_sqlite, "architecture")
    assert "`lib/` (2 files, 6 lines) [" in text and "escapes" not in text
    assert "`cli/` (2 files, 6 lines): What people type." in text
    assert "badge" not in text and "Shop sells tea" in text


@pytest.mark.contract("KS-8")
async def test_components_import_each_other_in_a_graph(on_sqlite: RepositoryWorld, repo: GitRepo) -> None:
    await synthesised(on_sqlite, repo)
    text = await page(on_sqlite, "components")
    assert "```mermaid\ngraph LR\n" in text
    assert "`src/shop/ledger` → `src/shop/core` in 1 file" in text
    assert "`src/shop/api` → `src/shop/ledger` in 1 file" in text
    assert "words that every part shares" in text
    assert "`Ledger`" in text


@pytest.mark.contract("KS-8")
async def test_hot_spots_are_what_changes_often_and_is_long(on_sqlite: RepositoryWorld, repo: GitRepo) -> None:
    await synthesised(on_sqlite, repo)
    text = await page(on_sqlite, "hot_spots")
    assert f"| 1 | `src/shop/ledger/book.py` [1] | 100 | 4.0 | 4 | {BOOK.count(chr(10))} |" in text
    assert "`src/shop/ledger/book.py`: Fix the sum of an empty book" in text
    assert f"{repo.head[:7]} [2]" in text


@pytest.mark.contract("KS-8")
async def test_owners_are_told_by_file_and_by_history(on_sqlite: RepositoryWorld, repo: GitRepo) -> None:
    await synthesised(on_sqlite, repo)
    text = await page(on_sqlite, "owners")
    assert "`src/shop/ledger`: @ada (2 files)" in text
    assert "- [" in text and "CODEOWNERS#L2-L2" in text
    row = next(line for line in text.splitlines() if line.startswith("| `src/shop/ledger`"))
    assert row.index("Ada Lovelace") < row.index("Grace Hopper")
    assert "Bus factor" in text


@pytest.mark.contract("KS-8")
async def test_the_glossary_quotes_what_words_mean(on_sqlite: RepositoryWorld, repo: GitRepo) -> None:
    await synthesised(on_sqlite, repo)
    text = await page(on_sqlite, "glossary")
    assert "**ledger**: A ledger is the list of everything that was paid." in text
    assert "**POS**: Point of Sale." in text
    assert "**Orders**: What a restaurant asks for, until it is delivered." in text
    assert "README.md#L" in text and "src/shop/api/orders.py#L" in text


@pytest.mark.contract("KS-8")
async def test_decisions_are_recorded_with_their_reasons_and_commits(here: RepositoryWorld, repo: GitRepo) -> None:
    await synthesised(here, repo)
    page = await here.services.intelligence.decisions.page(here.principal, here.workspace_id, DecisionFilter())
    by_title = {decision.title: decision for decision in page.items}
    assert set(by_title) == {
        "Keep sums as floats",
        "Keep sums in cents",
        "Use SQLite instead of PostgreSQL",
        "Switch sums to a cache",
        "Revert: Switch sums to a cache",
    }
    chosen = by_title["Use SQLite instead of PostgreSQL"]
    assert "> Because a branch has one machine and nobody to run a server." in chosen.rationale
    assert chosen.alternatives == ("PostgreSQL",)
    assert (chosen.status, chosen.author, chosen.author_name) == ("accepted", "system", AUTHOR)
    sha = repo.run("log", "--format=%H", "--grep=SQLite")
    assert f"from the history of shop: {sha[:7]}, #7." in chosen.rationale
    cents, floats = by_title["Keep sums in cents"], by_title["Keep sums as floats"]
    assert (floats.status, floats.superseded_by) == ("superseded", cents.id)
    assert "docs/adr/0002-cents.md#L1-L" in cents.rationale
    taken_back, revert = by_title["Switch sums to a cache"], by_title["Revert: Switch sums to a cache"]
    assert (taken_back.status, taken_back.superseded_by) == ("superseded", revert.id)
    assert "> Two branches saw different sums." in revert.rationale
    ties = await here.services.intelligence.relations.page(here.principal, here.workspace_id, entity=chosen.id)
    assert [(tie.relation, tie.end.id) for tie in ties.items] == [("derived_from", "shop")]


@pytest.mark.contract("KS-8")
async def test_milestones_are_the_tags_with_what_changed(here: RepositoryWorld, repo: GitRepo) -> None:
    await synthesised(here, repo)
    timeline = await here.services.intelligence.milestones.timeline(here.principal, here.workspace_id)
    assert [milestone.title for milestone in timeline.items] == ["shop v0.2.0", "shop v0.1.0"]
    newest, oldest = timeline.items
    assert newest.type == "release"
    assert "Ready for all branches" in newest.description
    assert "5 commits by 2 people since v0.1.0:" in newest.description
    assert f"({repo.head[:7]})" in newest.description
    assert "2 commits by 1 person from the beginning:" in oldest.description
    assert oldest.occurred_at < newest.occurred_at


async def test_findings_are_for_those_who_see_the_repository(on_sqlite: RepositoryWorld, repo: GitRepo) -> None:
    await synthesised(on_sqlite, repo)
    stranger = person("org_other")
    with pytest.raises(RepositoryNotFound):
        await on_sqlite.services.synthesis.findings(stranger, "shop")
    with pytest.raises(RepositoryNotFound):
        await on_sqlite.services.synthesis.start(stranger, "shop")
    mine = await on_sqlite.services.synthesis.findings(on_sqlite.principal, "shop", "owners")
    assert [finding.kind for finding in mine] == ["owners"]


async def test_the_audit_names_the_author_of_what_is_derived(on_sqlite: RepositoryWorld, repo: GitRepo) -> None:
    await synthesised(on_sqlite, repo)
    rows = await on_sqlite.services.database.read(
        lambda tx: tx.all("SELECT DISTINCT action, actor, actor_name FROM audit_event WHERE actor = 'system'")
    )
    assert {row["action"] for row in rows} >= {"decision.track", "milestone.track", "artifact.create"}
    assert {row["actor_name"] for row in rows} == {AUTHOR}


async def test_an_empty_repository_is_summed_up_with_nothing(here: RepositoryWorld, tmp_path: Path) -> None:
    row = await synthesised(here, GitRepo(tmp_path / "empty"), "empty")
    assert (row.synthesis_status, row.synthesis_progress) == ("completed", 100)
    assert await findings(here, slug="empty") == {}


@pytest.mark.slow
async def test_ten_thousand_commits_are_summed_up(
    sqlite_database: Database, clock: MovableClock, tmp_path: Path
) -> None:
    repo = GitRepo(tmp_path / "large")
    repo.grow(10_000)
    async with repository_world(sqlite_database, clock, tmp_path / "data", synthesis=True) as here:
        row = await synthesised(here, repo, "large")
        assert (row.commits, row.synthesis_status) == (10_000, "completed")
        job = await last_job(here)
        assert job.state == "succeeded"
        found = await findings(here, slug="large")
        # Each message says "because", none of them tells of a choice.
        assert {each.kind for each in found.values()} >= {"architecture", "components", "hot_spots", "owners"}
        assert not [each for each in found.values() if each.kind == "decision"]
