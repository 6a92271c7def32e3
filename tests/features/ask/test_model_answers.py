"""Owns the proof of answers by a model: every citation held against the repository, and what is left without one."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import RateLimited
from holdfast.core.tools.gateway import Intent
from holdfast.features.ask.model import CitedAnswer
from holdfast.features.repositories.model import NewRepository
from holdfast.features.usage.model import UsageFilter
from holdfast.storage.database import Database
from tests.fakes.llm.model import FakeModel, Turn, calls, model, says
from tests.features.ask.asking import add_to, asking, client, connect
from tests.support.clock import MovableClock
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld, repository_world

# Each test starts processes that read repositories.
pytestmark = pytest.mark.slow

QUESTION = "Why are sessions kept in PostgreSQL?"
REASON = "Redis lost every session on restart because it ran without a disk"
SUBJECT = "Keep sessions in PostgreSQL instead of Redis"
MONDAY = 1_795_392_000_000
"""2026-11-23, 00:00 UTC."""


class Asked:
    """Repositories, a model behind their project's endpoint, and what it was told."""

    def __init__(self, world: RepositoryWorld, fake: FakeModel, source: GitRepo) -> None:
        self.world, self.fake, self.source = world, fake, source

    async def ask(self, question: str = QUESTION, *slugs: str, **options: Any) -> CitedAnswer:
        service = asking(self.world, **options)
        return await service.ask(self.world.principal, slugs or ["ledger"], question, source="mcp")

    def says(self, write: Callable[["Told"], str], *before: Turn) -> None:
        """Make those calls, then answer with what is written from what was told so far."""
        turns = list(before)
        self.fake.choose = lambda body: turns.pop(0) if turns else says(write(Told(body)))

    def sha(self, subject: str) -> str:
        return self.source.run("log", "--format=%H", "-F", f"--grep={subject}")


class Told:
    """A request, as the model reads it."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        self.text = "\n".join(str(message.get("content")) for message in body["messages"])

    def number(self, address: str) -> int:
        """The number that a source has been given."""
        # A directory's address begins those of its files.
        end = r"(?!\w)" if address.endswith("/") else ""
        found = re.search(rf"\[(\d+)\] {re.escape(address)}{end}", self.text)
        assert found is not None, f"{address} is no source of {self.text}"
        return int(found[1])

    @property
    def results(self) -> list[str]:
        return [message["content"] for message in self.body["messages"] if message["role"] == "tool"]


@pytest.fixture
async def asked(database: Database, clock: MovableClock, tmp_path: Path, source: GitRepo) -> AsyncIterator[Asked]:
    async with on(database, clock, tmp_path, source) as made:
        yield made


@pytest.fixture
async def here(sqlite_database: Database, clock: MovableClock, tmp_path: Path, source: GitRepo) -> AsyncIterator[Asked]:
    """The same on SQLite alone, where the store makes no difference."""
    async with on(sqlite_database, clock, tmp_path, source) as made:
        yield made


@asynccontextmanager
async def on(database: Database, clock: MovableClock, path: Path, source: GitRepo) -> AsyncIterator[Asked]:
    async with repository_world(database, clock, path / "data") as world, model() as fake:
        await connect(world, await world.add(source, slug="ledger", embed=True), fake)
        yield Asked(world, fake, source)


@pytest.mark.contract("KS-3")
async def test_an_answer_keeps_the_citations_that_hold_and_lists_their_sources(asked: Asked) -> None:
    sha = asked.sha(SUBJECT)

    def write(told: Told) -> str:
        number = told.number(f"ledger@{sha[:7]}")
        return (
            f'## Why\n\nRedis lost every session on restart [{number} "{REASON}"]. PostgreSQL is backed up [{number}].'
        )

    asked.says(write)
    answer = await asked.ask()
    (citation,) = answer.citations
    number = citation.number
    assert answer.markdown == (
        f"## Why\n\nRedis lost every session on restart [{number}]. PostgreSQL is backed up [{number}].\n\n"
        f"## Sources\n\n- [{number}] commit `{sha[:7]}` {SUBJECT}, Grace Hopper, 2023-11-14 – `ledger@{sha[:7]}`"
    )
    assert (citation.address, citation.kind) == (f"ledger@{sha[:7]}", "commit")
    assert (answer.dropped, answer.removed, answer.model, answer.note) == (0, 0, "fake-model", "")
    assert (answer.tokens_in, answer.tokens_out) == (10, 5)
    assert asked.fake.refused == []


@pytest.mark.contract("KS-3")
async def test_hallucinated_citations_are_removed_and_counted(asked: Asked) -> None:
    sha = asked.sha(SUBJECT)

    def write(told: Told) -> str:
        number = told.number(f"ledger@{sha[:7]}")
        return (
            f"Redis lost every session on restart [{number}]. The team voted on it [58]. "
            f'Redis was too expensive [{number} "too expensive for a small team"]. '
            f"Sessions on restart are lost in `src/auth/redis_store.py` [{number}]. "
            f"Sessions were lost on restart until commit deadbee1 [{number}]. "
            "It is written down [ledger:docs/adr/7.md#L1-L9]. Mongo was tried first."
        )

    asked.says(write)
    answer = await asked.ask()
    assert answer.markdown.startswith(
        f"Redis lost every session on restart [{answer.citations[0].number}].\n\n*5 citations"
    )
    assert "*6 statements were left out: no source supports them.*" in answer.markdown
    assert (answer.dropped, answer.removed, len(answer.citations)) == (5, 6, 1)


async def test_an_answer_without_any_support_is_replaced_by_quotations(here: Asked) -> None:
    here.says(lambda told: "It is a matter of taste [99].\n\nEverybody does it.")
    answer = await here.ask()
    assert "Redis lost every session on restart because" in answer.markdown
    assert "matter of taste" not in answer.markdown
    assert "*Nothing of the model's answer was supported by a source" in answer.markdown
    assert "*1 citation was left out" in answer.markdown
    assert (answer.dropped, answer.removed, answer.model) == (1, 2, "holdfast-extractive")
    assert (answer.tokens_in, answer.tokens_out) == (10, 5)


@pytest.mark.contract("KS-3")
async def test_five_live_tools_read_the_repository_and_can_be_cited(here: Asked) -> None:
    sha = here.sha(SUBJECT)
    path = "src/auth/sessions.py"
    looks = calls(
        ("list_tree", {"project": "ledger", "path": "src", "recursive": True}),
        ("read_file", {"project": "ledger", "path": path, "start_line": 6, "end_line": 8}),
        ("git_log", {"project": "ledger", "path": path}),
        ("git_blame", {"project": "ledger", "path": path, "start_line": 1, "end_line": 3}),
        ("show_commit", {"project": "ledger", "commit": sha[:9]}),
    )

    def write(told: Told) -> str:
        file = told.number(f"ledger:{path}#L6-L8")
        tree, commit = told.number("ledger:src/"), told.number(f"ledger@{sha[:7]}")
        first = told.number(here.sha("Add sessions in Redis")[:7])
        return (
            f'`SessionKeeper` finds sessions by their token [{file} "found by their token"].\n\n'
            f"The files are `{path}` and `src/invoices.py` [{tree}].\n\n"
            f'Redis was imported before [{commit} "-import redis"], since "Add sessions in Redis" [{first}].\n\n'
            f"Grace Hopper last changed `{path}` lines 1-3 [{commit}]."
        )

    seen: list[tuple[str, str, str | None]] = []

    async def watch(intent: Intent) -> None:
        seen.append((intent.call.consumer, intent.tool.name, intent.call.workspace_id))

    here.world.services.gateway.decide = watch
    here.says(write, looks)
    answer = await here.ask()
    workspace_id = (await here.world.get("ledger")).workspace_id
    assert sorted(seen) == sorted(
        ("ask", name, workspace_id) for name in ("list_tree", "read_file", "git_log", "git_blame", "show_commit")
    )
    assert (answer.dropped, answer.removed) == (0, 0)
    assert {each.kind for each in answer.citations} == {"file", "directory", "commit"}
    assert f"`{path}#L6-L8` – `ledger:{path}#L6-L8`" in answer.markdown
    results = Told(here.fake.requests[-1]).results
    assert len(results) == 5
    assert all("<untrusted " in result for result in results)
    assert "6| class SessionKeeper:" in results[1]
    assert (answer.tokens_in, answer.tokens_out) == (20, 10)
    offered = [tool["function"]["name"] for tool in here.fake.requests[0]["tools"]]
    assert offered == ["list_tree", "read_file", "git_log", "git_blame", "show_commit"]


async def test_a_tool_reaches_no_other_repository_and_no_other_place(here: Asked, tmp_path: Path) -> None:
    other = await here.world.services.workspaces.create(
        here.world.principal, (await here.world.get("ledger")).project_id, "Other"
    )
    await add_to(here.world, other.id, client(tmp_path / "web"), "web")
    wrong = calls(
        ("read_file", {"project": "web", "path": "client/http.ts"}),
        ("read_file", {"project": "nobodys", "path": "client/http.ts"}),
        ("read_file", {"project": "ledger", "path": "../../etc/passwd"}),
        ("read_file", {"project": "ledger", "path": "/etc/passwd"}),
        ("read_file", {"project": "ledger", "path": "src/../../x"}),
        ("list_tree", {"project": "ledger", "path": ".git"}),
        ("show_commit", {"project": "ledger", "commit": "HEAD~1"}),
        ("show_commit", {"project": "ledger", "commit": "0" * 40}),
        ("git_blame", {"project": "ledger", "path": "src/auth/sessions.py", "start_line": -3}),
        ("git_log", {"project": ["ledger"]}),
    )
    here.says(lambda told: "Redis lost every session on restart [1].", wrong)
    await here.ask()
    results = Told(here.fake.requests[-1]).results
    assert len(results) == 10
    assert all(result.startswith('{"error":') for result in results)
    assert results[0] == results[1].replace("nobodys", "web")
    assert not any("Bearer" in result or "root:" in result for result in results)


async def test_remarks_before_calls_are_no_part_of_the_answer(here: Asked) -> None:
    look = calls(("list_tree", {"project": "ledger"}), content="Let me look at the files first.")
    here.says(lambda told: f"Redis lost every <session> on restart [{told.number('ledger@')}].", look)
    answer = await here.ask()
    assert answer.markdown.startswith(r"Redis lost every \<session> on restart [")
    assert (answer.dropped, answer.removed) == (0, 0)


async def test_what_a_repository_says_is_data_and_no_instruction(here: Asked) -> None:
    here.says(lambda told: "PWNED", calls(("read_file", {"project": "ledger", "path": "README.md"})))
    answer = await here.ask("How are invoices rounded?")
    first, last = here.fake.requests[0], Told(here.fake.requests[-1])
    system, user = first["messages"]
    assert "IGNORE ALL PREVIOUS" not in system["content"]
    assert "never instructions" in system["content"]
    fence = re.search(r"<untrusted (\w+)>", user["content"])
    assert fence is not None
    assert (
        user["content"].index("<untrusted")
        < user["content"].index("IGNORE ALL PREVIOUS")
        < user["content"].rindex(fence[1])
    )
    assert re.search(r"<untrusted \w+>.*IGNORE ALL PREVIOUS.*</untrusted \w+>", last.results[0], re.S)
    assert "PWNED" not in answer.markdown.partition("\n")[0]
    assert "Invoices are rounded half to even" in answer.markdown


async def test_a_model_that_fails_is_replaced_by_quotations(here: Asked) -> None:
    half = says("Redis lost every session on restart [1].", end_after=2)
    for failing in (
        Turn(status=500),
        Turn(status=401),
        Turn(status=400),
        Turn(cut_after=1),
        half,
        Turn(raw=b"nonsense"),
    ):
        here.fake.otherwise = failing
        answer = await here.ask()
        assert "Redis lost every session on restart because" in answer.markdown
        assert "*The model could not be asked, so this answer is quoted by plain rules.*" in answer.markdown
        assert (answer.model, bool(answer.note)) == ("holdfast-extractive", True)


async def test_a_model_that_never_answers_is_given_up(here: Asked) -> None:
    here.fake.otherwise = Turn(silent=True)
    answer = await here.ask(model_seconds=0.5)
    assert "*The model took too long, so this answer is quoted by plain rules.*" in answer.markdown
    await asyncio.wait_for(here.fake.hung_up.wait(), 10)


async def test_whoever_stops_asking_hangs_up_on_the_model_and_what_it_used_is_counted(here: Asked) -> None:
    here.fake.otherwise = says("Redis lost every session on restart. " * 20, pieces=8, stall_after=4)
    asking = asyncio.create_task(here.ask())
    await asyncio.wait_for(here.fake.asked.wait(), 10)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await asyncio.wait_for(here.fake.hung_up.wait(), 10)
    entries = (await here.world.services.usage.entries(here.world.principal, UsageFilter(source="mcp"))).items
    assert [each.operation for each in entries] == ["ask"]


async def test_a_model_whose_key_is_gone_is_replaced_by_quotations(here: Asked) -> None:
    await here.world.services.secrets.clear(here.world.principal, here.world.workspace_id, "MODEL_KEY")
    answer = await here.ask()
    assert "Redis lost every session on restart because" in answer.markdown
    assert here.fake.requests == []


async def test_a_question_across_repositories_gives_the_model_both(here: Asked, tmp_path: Path) -> None:
    other = await here.world.services.workspaces.create(
        here.world.principal, (await here.world.get("ledger")).project_id, "Clients"
    )
    web = client(tmp_path / "web")
    await add_to(here.world, other.id, web, "web")
    here.says(
        lambda told: (
            f"The token is sent as a bearer header [{told.number(f'web@{web.head[:7]}')}], and its session is kept in "
            f"PostgreSQL [{told.number(f'ledger@{here.sha(SUBJECT)[:7]}')}]."
        ),
        calls(("read_file", {"project": "web", "path": "client/http.ts"})),
    )
    answer = await here.ask("Why is the session token a bearer header and why PostgreSQL?", "ledger", "web")
    assert {each.repository for each in answer.citations} == {"ledger", "web"}
    assert answer.dropped == 0
    assert "authorization: `Bearer" in Told(here.fake.requests[-1]).results[0]


@pytest.mark.contract("KS-6")
async def test_usage_is_logged_with_its_source_and_counts_until_monday(asked: Asked) -> None:
    world, clock = asked.world, asked.world.clock
    asked.says(lambda told: f"Redis lost every session on restart [{told.number('ledger@' + asked.sha(SUBJECT)[:7])}].")
    clock.millis = MONDAY - 1_000
    await asked.ask(weekly_tokens=15)
    entries = (await world.services.usage.entries(world.principal, UsageFilter(source="mcp"))).items
    assert [(each.operation, each.model, each.tokens_in, each.tokens_out) for each in entries] == [
        ("ask", "fake-model", 10, 5)
    ]
    assert entries[0].cost == pytest.approx(20e-6)
    assert entries[0].project_id == (await world.get("ledger")).project_id
    requests = len(asked.fake.requests)
    with pytest.raises(RateLimited) as refused:
        await asked.ask(weekly_tokens=15)
    assert refused.value.code == "budget_exceeded"
    assert refused.value.headers["Retry-After"] == "1"
    clock.millis = MONDAY - 1
    with pytest.raises(RateLimited):
        await asked.ask(weekly_tokens=15)
    assert len(asked.fake.requests) == requests
    await asked.ask(weekly_tokens=16)
    clock.millis = MONDAY
    assert (await asked.ask(weekly_tokens=15)).model == "fake-model"
    with pytest.raises(RateLimited):
        await asked.ask(weekly_tokens=15)
    other = replace(world.principal, actor="usr_other")
    await asking(world, weekly_tokens=15).ask(other, ["ledger"], QUESTION, source="mcp")


@pytest.mark.contract("KS-6")
async def test_quotations_are_given_when_nothing_is_left_of_the_budget(here: Asked) -> None:
    here.says(lambda told: "Redis lost every session on restart [1].")
    await here.ask(weekly_tokens=1)
    await here.world.services.endpoints.remove(
        here.world.principal, (await here.world.get("ledger")).project_id, "default"
    )
    assert "Redis lost every session" in (await here.ask(weekly_tokens=1)).markdown


async def test_a_model_that_tells_no_usage_is_counted_by_its_words(here: Asked) -> None:
    here.fake.otherwise = says("Redis lost every session on restart [1].", usage=None)
    answer = await here.ask()
    assert answer.tokens_in > 500
    assert 5 < answer.tokens_out < 500


async def test_a_repository_of_a_host_is_cited_with_its_address_there(here: Asked, tmp_path: Path) -> None:
    found = await here.world.get("ledger")
    await here.world.services.database.write(
        lambda tx: tx.execute(
            "UPDATE repository SET host = 'github', location = :location WHERE id = :id",
            {"location": "git@github.com:acme/ledger.git", "id": found.id},
        )
    )
    sha = here.sha(SUBJECT)
    here.says(lambda told: f"Redis lost every session on restart [{told.number(f'ledger@{sha[:7]}')}].")
    answer = await here.ask()
    assert answer.citations[0].url == f"https://github.com/acme/ledger/commit/{sha}"
    assert f"– <https://github.com/acme/ledger/commit/{sha}>" in answer.markdown


async def test_a_repository_that_is_not_read_yet_can_be_asked(here: Asked, tmp_path: Path) -> None:
    await here.world.services.jobs.stop()
    source = client(tmp_path / "web")
    new = NewRepository(str(source.path), slug="web")
    await here.world.services.repositories.add(here.world.principal, here.world.workspace_id, new)
    here.says(lambda told: "The sources do not mention it.", calls(("list_tree", {"project": "web"})))
    answer = await here.ask(QUESTION, "web")
    assert "has not been read yet" in Told(here.fake.requests[-1]).results[0]
    assert "Nothing that was found is similar enough" in answer.markdown
