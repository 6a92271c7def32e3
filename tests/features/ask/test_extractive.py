"""Owns the proof of answers without a model: quoted word for word, under what is asked, from what is really there."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.errors import Forbidden, Invalid
from holdfast.features.ask.model import CitedAnswer
from holdfast.features.repositories.history import store as history_store
from holdfast.features.repositories.hosts import item_store
from holdfast.features.repositories.hosts.item_entries import item_entries
from holdfast.features.repositories.model import Item, NewRepository, Remark, RepositoryNotFound
from holdfast.features.usage.model import UsageFilter
from holdfast.storage.database import Database, Tx
from tests.features.ask.asking import add_to, client
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld, repository_world

# Each test starts processes that read repositories.
pytestmark = pytest.mark.slow


@pytest.fixture
async def world(
    database: Database, clock: MovableClock, tmp_path: Path, source: GitRepo
) -> AsyncIterator[RepositoryWorld]:
    async with repository_world(database, clock, tmp_path / "data") as made:
        await made.add(source, slug="ledger")
        yield made


@pytest.fixture
async def here(
    sqlite_database: Database, clock: MovableClock, tmp_path: Path, source: GitRepo
) -> AsyncIterator[RepositoryWorld]:
    """The same on SQLite alone, where the store makes no difference."""
    async with repository_world(sqlite_database, clock, tmp_path / "data") as made:
        await made.add(source, slug="ledger")
        yield made


@pytest.mark.contract("KS-3")
async def test_without_a_model_the_best_passages_are_quoted_under_each_aspect(world: RepositoryWorld) -> None:
    question = "Why were sessions moved to PostgreSQL, who decided and when?"
    answer = await world.services.ask.ask(world.principal, ["ledger"], question, source="cli")
    body, _, listed = answer.markdown.partition("\n## Sources\n")
    why, who, when = (part for part in body.split("## ") if part.strip())
    assert why.startswith("Why were sessions moved to PostgreSQL\n")
    assert "Redis lost every session on restart because it ran without a disk, so people were signed out" in why
    assert '"/src/auth/ @security-team"' in who
    assert "**Grace Hopper**, 2023-11-14, last changed src/auth/sessions.py" in who
    assert when.startswith("When\n\n- 2023-11-14: ")
    sha = next(each.address for each in answer.citations if each.kind == "commit")
    assert f"Keep sessions in PostgreSQL instead of Redis, Grace Hopper, 2023-11-14 – `{sha}`" in listed
    assert {each.address for each in answer.citations} == {sha, "ledger:CODEOWNERS#L2-L2"}
    assert (answer.model, answer.tokens_in, answer.tokens_out, answer.dropped) == ("holdfast-extractive", 0, 0, 0)


async def test_each_kind_of_question_gets_its_kind_of_source(here: RepositoryWorld) -> None:
    async def ask(question: str) -> CitedAnswer:
        return await here.services.ask.ask(here.principal, ["ledger"], question, source="rest")

    where = await ask("Where is open_session?")
    assert where.markdown.startswith(
        "`src/auth/sessions.py` lines 12–16 [1]:\n\n```python\n    def open_session(self, person: str) -> str:\n"
    )
    assert where.citations[0].address == "ledger:src/auth/sessions.py#L12-L16"
    assert "close_session" not in where.markdown
    broke = await ask("What broke empty invoices?")
    assert broke.markdown.startswith(
        '- "Fix the crash when an invoice has no lines": "The rounding divided by the number of lines'
    )
    how = await ask("How are invoices rounded?")
    assert '"Invoices are rounded half to even, which accountants call banker\'s rounding."' in how.markdown
    assert "ledger:README.md#L5-L5" in {each.address for each in how.citations}
    assert (await ask("v1.0.0")).markdown.startswith('- "v1.0.0": "First release for accountants" – 2023-11-14 [1]')
    nothing = await ask("Which swallow carries coconuts over mercury?")
    assert nothing.markdown.startswith("Nothing that was found is similar enough to this question")
    assert "ledger (commits: 4; files: 4; pull requests, issues: 0)" in nothing.markdown


async def test_who_changed_a_file_last_is_whoever_did_so_not_who_wrote_most_of_it(
    here: RepositoryWorld, tmp_path: Path
) -> None:
    made = GitRepo(tmp_path / "tax")
    rates = [f"RATE_{number} = {number}" for number in range(20)]
    made.commit("Begin the rates", {"src/rates.py": "\n".join(rates)}, author="Grace Hopper")
    made.commit("Raise the last rate", {"src/rates.py": "\n".join([*rates[:-1], "RATE_19 = 21"])}, author="Ada King")
    await here.add(made, slug="tax")

    answer = await here.services.ask.ask(here.principal, ["tax"], "Who changed src/rates.py last?", source="cli")

    assert answer.markdown.startswith("- **Ada King**, ")
    assert 'last changed src/rates.py: "Raise the last rate" [1]' in answer.markdown
    assert "**Grace Hopper**" in answer.markdown


async def test_pull_requests_and_issues_are_cited_by_their_number_and_address(world: RepositoryWorld) -> None:
    found = await world.get("ledger")
    body = "Half-even rounding was chosen because regulators audit every cent.\n\nSigned-off-by: Ada"
    url = "https://github.com/acme/ledger/pull/12"
    remark = Remark("grace", 2_000, "Auditors in Norway demand half-even rounding since 2019.")
    item = Item("pull_request", "12", "Round half to even", body, "merged", "ada", url, 1_000, 2_000, remarks=(remark,))

    def work(tx: Tx) -> None:
        item_store.put_items(tx, found.id, [item])
        world.services.search.put(tx, list(item_entries(found, item, 3_000)))

    await world.services.database.write(work)
    question = "Why was half-even rounding chosen?"
    answer = await world.services.ask.ask(world.principal, ["ledger"], question, source="rest")
    first = answer.markdown.split("\n")[0]
    assert first.startswith(
        '- "Round half to even": "Half-even rounding was chosen because regulators audit every cent."'
    )
    assert "Signed-off" not in answer.markdown
    cited = answer.citations[0]
    assert (cited.address, cited.kind, cited.url) == ("ledger#12", "pull_request", url)
    assert f"pull request #12 Round half to even, ada, 1970-01-01 – <{url}>" in answer.markdown


async def test_several_repositories_of_several_workspaces_are_asked_at_once(
    world: RepositoryWorld, tmp_path: Path
) -> None:
    project = (await world.get("ledger")).project_id
    other = await world.services.workspaces.create(world.principal, project, "Clients")
    await add_to(world, other.id, client(tmp_path / "web"), "web")
    question = "Why is the session token a bearer header, and why are sessions in PostgreSQL?"
    answer = await world.services.ask.ask(world.principal, ["ledger", "web"], question, source="rest")
    assert {each.repository for each in answer.citations} == {"ledger", "web"}
    assert "browsers attach them to foreign requests" in answer.markdown
    assert "Redis lost every session on restart" in answer.markdown
    assert "] web: commit" in answer.markdown
    confined = replace(world.principal, workspace_ids=frozenset({other.id}))
    with pytest.raises(RepositoryNotFound, match="ledger"):
        await world.services.ask.ask(confined, ["web", "ledger"], question, source="rest")


async def test_what_is_gone_from_the_store_is_not_quoted(world: RepositoryWorld) -> None:
    found = await world.get("ledger")
    shas = await world.services.database.read(lambda tx: history_store.shas(tx, found.id))
    await world.services.database.write(lambda tx: history_store.delete_commits(tx, found.id, shas))
    answer = await world.services.ask.ask(
        world.principal, ["ledger"], "Why were sessions moved to PostgreSQL?", source="rest"
    )
    assert all(each.kind != "commit" for each in answer.citations)
    assert "Redis lost" not in answer.markdown
    assert answer.dropped >= 1
    assert "left out: not confirmed in the repositories" in answer.markdown


async def test_lines_that_can_no_longer_be_read_are_not_quoted(here: RepositoryWorld, tmp_path: Path) -> None:
    await here.add(client(tmp_path / "web"), slug="web")
    (tmp_path / "web" / ".git").rename(tmp_path / "moved")
    answer = await here.services.ask.ask(here.principal, ["web"], "Where is headers?", source="rest")
    assert "export function" not in answer.markdown
    assert answer.dropped >= 1


async def test_a_repository_that_is_not_read_yet_is_named(here: RepositoryWorld, tmp_path: Path) -> None:
    await here.services.jobs.stop()
    source = client(tmp_path / "web")
    await here.services.repositories.add(here.principal, here.workspace_id, NewRepository(str(source.path), slug="web"))
    answer = await here.services.ask.ask(here.principal, ["web", "ledger"], "Where is open_session?", source="cli")
    assert "def open_session" in answer.markdown
    assert "*web has not been read yet, so nothing of it is in this.*" in answer.markdown


async def test_an_empty_repository_answers_that_there_is_nothing(here: RepositoryWorld, tmp_path: Path) -> None:
    await here.add(GitRepo(tmp_path / "empty"), slug="empty")
    answer = await here.services.ask.ask(here.principal, ["empty"], "Why?", source="cli")
    assert "empty (commits: 0" in answer.markdown


async def test_words_of_others_load_no_picture_and_are_taken_for_no_citation(
    here: RepositoryWorld, tmp_path: Path
) -> None:
    hostile = GitRepo(tmp_path / "hostile")
    subject = "Explain zebra ![x](https://evil.example/p) striping [1] <img src=y>, because zebras stripe [2]"
    hostile.commit(subject, {"a.txt": "a"}, author="<b>Ada")
    await here.add(hostile, slug="hostile")
    answer = await here.services.ask.ask(here.principal, ["hostile"], "Why do zebras stripe?", source="cli")
    inert = r"Explain zebra !\[x](https://evil.example/p) striping \[1\] \<img src=y>, because zebras stripe \[2\]"
    assert answer.markdown.count(inert) == 2
    assert "![" not in answer.markdown
    assert " <img" not in answer.markdown
    assert answer.citations[0].title == subject


@pytest.mark.contract("KS-6")
async def test_a_quoted_answer_is_logged_and_costs_nothing(world: RepositoryWorld) -> None:
    await world.services.ask.ask(world.principal, ["ledger"], "Where is open_session?", source="rest")
    entries = (await world.services.usage.entries(world.principal, UsageFilter(source="rest"))).items
    assert [(each.operation, each.model, each.tokens_in, each.tokens_out) for each in entries] == [
        ("ask", "holdfast-extractive", 0, 0)
    ]
    assert entries[0].workspace_id == world.workspace_id


async def test_a_question_has_to_ask_something_in_four_thousand_characters(here: RepositoryWorld) -> None:
    for wrong in ("", "   \n", "x" * 4_001):
        with pytest.raises(Invalid) as refused:
            await here.services.ask.ask(here.principal, ["ledger"], wrong, source="cli")
        assert [each.field for each in refused.value.fields] == ["question"]
    question = ("Why are sessions in PostgreSQL? " * 200)[:4_000]
    answer = await here.services.ask.ask(here.principal, ["ledger"], question, source="cli")
    assert "Redis lost every session" in answer.markdown


async def test_strangers_and_keys_that_only_read_do_not_ask(here: RepositoryWorld) -> None:
    stranger = replace(here.principal, organization_id="org_other")
    with pytest.raises(RepositoryNotFound):
        await here.services.ask.ask(stranger, ["ledger"], "Why?", source="mcp")
    with pytest.raises(Forbidden):
        await here.services.ask.ask(
            replace(here.principal, scopes=frozenset({"read"})), ["ledger"], "Why?", source="mcp"
        )
    with pytest.raises(Invalid):
        await here.services.ask.ask(here.principal, [], "Why?", source="mcp")
