"""What hosts tell of repositories: kept once, found by search, read on from where the last sync ended."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from holdfast.core.errors import NotFound, RateLimited, UpstreamFailed
from holdfast.features.repositories import store
from holdfast.features.repositories.hosts import item_store
from holdfast.features.repositories.hosts.item_entries import MOST_PARTS, item_entries
from holdfast.features.repositories.hosts.items import BATCH, SKEW_MILLIS, MoreToRead, OperatorAccess
from holdfast.features.repositories.model import Item, Remark, Repository
from holdfast.storage.database import Database
from tests.fakes.code_hosts import github as fake_github
from tests.fakes.code_hosts import gitlab as fake_gitlab
from tests.fakes.code_hosts.github import FakeGitHub
from tests.fakes.code_hosts.gitlab import PROJECT, FakeGitLab
from tests.fakes.eavesdropper import eavesdropper
from tests.features.repositories.hosted import Hosted, hosted
from tests.support.clock import MovableClock

YEAR = 1_767_225_600_000


@pytest.fixture
async def hub() -> AsyncIterator[FakeGitHub]:
    async with fake_github.github() as made:
        yield made


@pytest.fixture
async def at_hub(hub: FakeGitHub, database: Database, clock: MovableClock, tmp_path: Path) -> Hosted:
    clock.millis = YEAR + 200_000 + SKEW_MILLIS
    access = OperatorAccess(hub.url, fake_github.TOKEN, "HOLDFAST_GITHUB_TOKEN")
    return await hosted(database, clock, tmp_path, github=access)


@pytest.fixture
async def on_sqlite(hub: FakeGitHub, sqlite_database: Database, clock: MovableClock, tmp_path: Path) -> Hosted:
    """For what has nothing to do with the store."""
    clock.millis = YEAR + 200_000 + SKEW_MILLIS
    access = OperatorAccess(hub.url, fake_github.TOKEN, "HOLDFAST_GITHUB_TOKEN")
    return await hosted(sqlite_database, clock, tmp_path, github=access)


def clone_url(hub: FakeGitHub, name: str = "octo/tides") -> str:
    return f"{hub.url}/{name}.git"


@pytest.mark.contract("KS-2")
async def test_what_the_host_knows_is_kept_and_found(hub: FakeGitHub, at_hub: Hosted) -> None:
    hub.history.pull(1, 10, merged=True, files=["src/tides.py"], body="The moon pulls the water.")
    hub.history.review(1, "APPROVED", "Beautiful gravity", 11)
    hub.history.issue(2, 20, body="The harbour floods at spring tide.")
    hub.history.comment(2, "Because the gauge was calibrated in fathoms", 25)
    hub.history.release("v1.0", 30, body="First tables for sailors.")
    hub.history.discussion(3, 40, body="Should we publish currents?")
    repository = await at_hub.add(clone_url(hub))
    assert (repository.host, repository.full_name) == ("github", "octo/tides")
    async with at_hub.working():
        job = await at_hub.sync(repository)
    assert (job.state, job.result) == ("succeeded", 4)
    pull = await at_hub.item(repository, "pull_request", "1")
    assert pull is not None
    assert (pull.state, pull.commit, pull.files, pull.remarks[0].kind) == (
        "merged",
        f"{1:040x}",
        ("src/tides.py",),
        "review",
    )
    (hit, *_) = await at_hub.found("why was the gauge calibrated in fathoms", "issue")
    assert (hit.id, hit.title) == (f"{repository.id}/2", "Issue 2 (#2)")
    assert hit.meta["repository"] == repository.slug
    assert hit.meta["number"] == "2"
    assert str(hit.meta["url"]).endswith("/issues/2")
    (hit, *_) = await at_hub.found("beautiful gravity", "pull_request")
    assert (hit.meta["sha"], hit.meta["files"]) == (f"{1:040x}", ["src/tides.py"])
    assert (await at_hub.found("tables for sailors", "release"))[0].title == "v1.0"
    assert (await at_hub.found("publish currents", "discussion"))[0].id == f"{repository.id}/3"
    (log, *_) = await at_hub.database.read(lambda tx: store.syncs(tx, repository.id))
    assert log.items_changed == 4


@pytest.mark.contract("KS-2")
async def test_a_second_sync_of_unchanged_items_writes_nothing(hub: FakeGitHub, at_hub: Hosted) -> None:
    for number in range(1, 2 * BATCH + 6):
        hub.history.issue(number, number, comments=0)
    hub.history.release("v1", 5)
    hub.history.discussion(900, 6)
    repository = await at_hub.add(clone_url(hub))
    async with at_hub.working():
        assert (await at_hub.sync(repository)).result == 2 * BATCH + 7
        before = await at_hub.database.read(lambda tx: tx.all("SELECT learned_at FROM search_entry"))
        at_hub.clock.advance(days=1)
        hub.asked.clear()
        assert (await at_hub.sync(repository)).result == 0
        # One question for each kind: details only of what changed.
        assert len(hub.asked) == 4
        assert before == await at_hub.database.read(lambda tx: tx.all("SELECT learned_at FROM search_entry"))
        hub.history.comment(7, "It moved", 87_000)
        assert (await at_hub.sync(repository)).result == 1
    assert (await at_hub.found("it moved", "issue"))[0].id == f"{repository.id}/7"


async def test_one_kind_does_not_list_what_the_other_changed_for_ever(hub: FakeGitHub, on_sqlite: Hosted) -> None:
    hub.history.issue(1, 1)
    for number in range(2, 30):
        hub.history.pull(number, number)
    hub.history.page_size = 5
    repository = await on_sqlite.add(clone_url(hub))
    async with on_sqlite.working():
        await on_sqlite.sync(repository)
        hub.asked.clear()
        await on_sqlite.sync(repository)
    assert len([asked for asked in hub.asked if "/issues?" in asked]) == 2
    assert await on_sqlite.cursor(repository, "issue") == YEAR + 200_000


async def test_a_shorter_text_leaves_no_old_passages_behind(hub: FakeGitHub, at_hub: Hosted) -> None:
    hub.history.issue(1, 1, body="\n\n".join(f"Paragraph {number} about kelp. " * 30 for number in range(12)))
    repository = await at_hub.add(clone_url(hub))
    async with at_hub.working():
        await at_hub.sync(repository)
        assert len({hit.part for hit in await at_hub.found("kelp paragraph", "issue")}) > 1
        hub.history.issue(1, 300, body="Nothing of that sort.")
        assert (await at_hub.sync(repository)).result == 1
    assert await at_hub.found("kelp", "issue") == []


@pytest.mark.contract("KS-2")
async def test_a_sync_that_is_held_up_goes_on_from_what_it_kept(hub: FakeGitHub, at_hub: Hosted) -> None:
    for number in range(1, BATCH + 8):
        hub.history.pull(number, number, files=["a.py"])
    # The list, then three questions for each pull request.
    hub.left = 1 + 3 * (BATCH + 3)
    repository = await at_hub.add(clone_url(hub))
    async with at_hub.working():
        held_up = await at_hub.sync(repository)
        assert (held_up.state, "rate limit" in (held_up.error or "")) == ("failed", True)
        assert isinstance(at_hub.problems[0], RateLimited)
        assert await at_hub.cursor(repository, "pull_request") == YEAR + (BATCH + 3) * 1_000
        hub.left = 1_000
        hub.asked.clear()
        assert (await at_hub.sync(repository)).result == 4
    assert not any(f"/pulls/{BATCH}" in asked for asked in hub.asked)
    assert await at_hub.database.read(lambda tx: item_store.count_items(tx, repository.id)) == BATCH + 7


async def test_a_long_history_is_read_over_several_syncs(hub: FakeGitHub, on_sqlite: Hosted) -> None:
    for number in range(1, 4):
        hub.history.issue(number, number)
    on_sqlite.seconds = 0
    repository = await on_sqlite.add(clone_url(hub))
    async with on_sqlite.working():
        for number in range(1, 4):
            assert (await on_sqlite.sync(repository)).state == "failed"
            assert isinstance(on_sqlite.problems[-1], MoreToRead)
            assert await on_sqlite.cursor(repository, "issue") == YEAR + number * 1_000
        assert (await on_sqlite.sync(repository)).result == 0
    assert await on_sqlite.database.read(lambda tx: item_store.count_items(tx, repository.id)) == 3


@pytest.mark.contract("KS-2")
async def test_without_a_token_nothing_is_asked(hub: FakeGitHub, on_sqlite: Hosted) -> None:
    on_sqlite.accesses["github"] = OperatorAccess(hub.url, None, "HOLDFAST_GITHUB_TOKEN")
    repository = await on_sqlite.add(clone_url(hub))
    async with on_sqlite.working():
        assert (await on_sqlite.sync(repository)).result == 0
    assert hub.asked == []


async def test_a_workspaces_own_token_is_used_before_the_operators(hub: FakeGitHub, on_sqlite: Hosted) -> None:
    on_sqlite.accesses["github"] = OperatorAccess(hub.url, "the operator's", "HOLDFAST_GITHUB_TOKEN")
    hub.history.issue(1, 1)
    await on_sqlite.keep_secret("HUB", fake_github.TOKEN)
    repository = await on_sqlite.add(clone_url(hub), key_from="HUB")
    async with on_sqlite.working():
        assert (await on_sqlite.sync(repository)).result == 1
        assert set(hub.tokens) == {f"Bearer {fake_github.TOKEN}"}
        await on_sqlite.keep_secret("HUB", "revoked")
        job = await on_sqlite.sync(repository)
    assert isinstance(on_sqlite.problems[0], UpstreamFailed)
    assert "the secret HUB" in (job.error or "")
    assert "revoked" not in (job.error or "").replace("was revoked", "")


async def test_a_token_never_reaches_another_host_than_the_repositorys(hub: FakeGitHub, on_sqlite: Hosted) -> None:
    await on_sqlite.keep_secret("HUB", fake_github.TOKEN)
    elsewhere = await on_sqlite.add("https://git.example.org/octo/tides.git", key_from="HUB", host="github")
    async with on_sqlite.working():
        assert (await on_sqlite.sync(elsewhere)).result == 0
    assert hub.asked == []


async def test_an_api_that_redirects_leads_no_token_away(hub: FakeGitHub, on_sqlite: Hosted) -> None:
    on_sqlite.accesses["github"] = OperatorAccess(hub.url, None, "HOLDFAST_GITHUB_TOKEN")
    await on_sqlite.keep_secret("HUB", fake_github.TOKEN)
    repository = await on_sqlite.add(clone_url(hub), key_from="HUB")
    async with eavesdropper() as evil, on_sqlite.working():
        on_sqlite.allowed = (evil.place,)
        for status in (301, 302, 307, 308):
            hub.faults = [web.Response(status=status, headers={"Location": evil.url("/repos")})]
            assert (await on_sqlite.sync(repository)).state == "failed"
    assert len(evil.heard) >= 4
    assert not evil.heard_of(fake_github.TOKEN)
    assert f"Bearer {fake_github.TOKEN}" in hub.tokens


async def test_a_hidden_repository_names_the_token_to_mend(hub: FakeGitHub, on_sqlite: Hosted) -> None:
    repository = await on_sqlite.add(clone_url(hub, "octo/hidden"))
    async with on_sqlite.working():
        job = await on_sqlite.sync(repository)
    assert isinstance(on_sqlite.problems[0], NotFound)
    assert "HOLDFAST_GITHUB_TOKEN" in (job.error or "")


async def test_a_faltering_host_fails_the_reading_but_keeps_what_came(hub: FakeGitHub, on_sqlite: Hosted) -> None:
    hub.history.issue(1, 1)
    hub.history.issue(2, 2)
    hub.history.comment(2, "more", 2)
    repository = await on_sqlite.add(clone_url(hub))
    async with on_sqlite.working():
        # The issue without comments is whole by then; the comments of the other one cannot be had.
        hub.history.comments[2][0]["created_at"] = "not a time"
        job = await on_sqlite.sync(repository)
    assert (job.state, isinstance(on_sqlite.problems[0], UpstreamFailed)) == ("failed", True)
    assert await on_sqlite.item(repository, "issue", "1") is not None
    assert await on_sqlite.item(repository, "issue", "2") is None


@pytest.mark.contract("KS-2")
async def test_gitlab_projects_are_read_too(database: Database, clock: MovableClock, tmp_path: Path) -> None:
    async with fake_gitlab.gitlab() as lab:
        access = OperatorAccess(lab.url, fake_gitlab.TOKEN, "HOLDFAST_GITLAB_TOKEN")
        at_lab = await hosted(database, clock, tmp_path, gitlab=access)
        _fill(lab)
        repository = await at_lab.add(f"{lab.url}/{PROJECT}.git")
        assert (repository.host, repository.full_name) == ("gitlab", PROJECT)
        async with at_lab.working():
            assert (await at_lab.sync(repository)).result == 3
            assert (await at_lab.sync(repository)).result == 0
        assert set(lab.tokens) == {fake_gitlab.TOKEN}
        merge = await at_lab.item(repository, "pull_request", "3")
        assert merge is not None
        assert (merge.state, merge.remarks[0].body) == ("merged", "Mind the reef")
        assert (await at_lab.found("mind the reef", "pull_request"))[0].id == f"{repository.id}/3"


def _fill(lab: FakeGitLab) -> None:
    lab.history.merge(3, 10, files=["a.py"], state="merged", merged_at="2026-01-01T00:00:10.000Z")
    lab.history.note("merge_requests", 3, "Mind the reef", 12)
    lab.history.issue(4, 20)
    lab.history.release("v1", 30)


async def test_a_repository_that_is_removed_meanwhile_leaves_nothing(hub: FakeGitHub, at_hub: Hosted) -> None:
    hub.history.issue(1, 1)
    repository = await at_hub.add(clone_url(hub))
    async with at_hub.working():
        await at_hub.sync(repository)
    await at_hub.repositories.remove(at_hub.principal, repository.slug)
    assert await at_hub.found("issue", "issue") == []
    assert await at_hub.database.read(lambda tx: item_store.count_items(tx, repository.id)) == 0


def test_an_enormous_thread_is_searched_by_its_first_passages(some_repository: Repository) -> None:
    remarks = tuple(Remark("grace", number, f"Remark {number} " * 120) for number in range(500))
    item = Item("issue", "1", "Long", "", "open", "ada", "u", 1, 2, remarks=remarks)
    entries = list(item_entries(some_repository, item, 10))
    assert len(entries) == MOST_PARTS
    assert [entry.part for entry in entries] == list(range(MOST_PARTS))
    assert {entry.collection for entry in entries} == {some_repository.id}


def test_an_item_without_words_is_found_by_its_title(some_repository: Repository) -> None:
    item = Item("pull_request", "12", "Lift the anchor", "", "merged", "ada", "u", 1, 2, merged_at=7, files=("a.py",))
    (entry,) = item_entries(some_repository, item, 10)
    assert entry.title == "Lift the anchor (#12)"
    assert "a.py" in entry.text
    assert entry.occurred_at == 7


@pytest.fixture
async def some_repository(on_sqlite: Hosted, hub: FakeGitHub) -> Repository:
    return await on_sqlite.add(clone_url(hub))


async def test_faults_of_the_host_are_tried_again_within_a_sync(hub: FakeGitHub, on_sqlite: Hosted) -> None:
    hub.history.issue(1, 1)
    repository = await on_sqlite.add(clone_url(hub))
    hub.faults = [web.Response(status=502)]
    async with on_sqlite.working():
        assert (await on_sqlite.sync(repository)).result == 1


async def test_a_sync_stops_when_it_is_cancelled_and_goes_on_later(hub: FakeGitHub, on_sqlite: Hosted) -> None:
    for number in range(1, BATCH + 3):
        hub.history.issue(number, number)
    hub.history.comment(BATCH + 2, "The last words", BATCH + 2)
    repository = await on_sqlite.add(clone_url(hub))

    released = hub.held["/comments"] = asyncio.Event()
    async with on_sqlite.working():
        asked = await on_sqlite.repositories.sync(on_sqlite.principal, repository.slug)
        async with asyncio.timeout(30):
            while not any("/comments" in path for path in hub.asked):
                await asyncio.sleep(0.01)
        await on_sqlite.database.write(lambda tx: on_sqlite.jobs.cancel(tx, str(asked.job_id)))
        assert (await on_sqlite.jobs.wait(str(asked.job_id), timeout_seconds=30)).state == "cancelled"
        assert await on_sqlite.cursor(repository, "issue") == YEAR + BATCH * 1_000
        released.set()
        assert (await on_sqlite.sync(repository)).result == 2
