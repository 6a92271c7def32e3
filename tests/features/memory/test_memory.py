"""Proves the rules of memories on both stores: saving, repeating, refusing, editing, ending, finding, listing."""

import asyncio
from dataclasses import replace

import pytest

from holdfast.core.errors import Forbidden, Invalid, NotFound
from holdfast.core.ids import new_id
from holdfast.core.principal import Principal
from holdfast.features.memory.model import Filters, MemoryChange, MemoryRejected, NewMemory
from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.features.memory.saving import count, save
from tests.support.clock import MovableClock
from tests.support.features.memories import MemoryWorld, memory_world

DAY = 86_400_000


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> MemoryWorld:
    return await memory_world(database, clock)


@pytest.fixture
async def embedded(sqlite_database: SqliteDatabase, clock: MovableClock) -> MemoryWorld:
    """On SQLite only, for rules that have nothing to do with the store."""
    return await memory_world(sqlite_database, clock)


@pytest.mark.contract("XM-4")
async def test_a_saved_memory_is_read_by_id_and_by_slug_and_recalled(world: MemoryWorld) -> None:
    saved = await save(world, "The staging database listens on port 5433.", tags=("infra", "infra", "db"))
    memory = saved.memory
    assert saved.outcome == "saved"
    assert memory is not None
    assert memory.slug == "the-staging-database-listens-on-port-5433"
    assert (memory.category, memory.tags, memory.trust) == ("fact", ("infra", "db"), "agent")
    assert await world.memory.get(world.agent, world.ws, memory.id) == memory
    assert await world.memory.get(world.agent, world.ws, memory.slug) == memory
    found = await world.memory.recall(world.agent, world.ws, "staging database port")
    assert [each.memory.id for each in found] == [memory.id]
    assert 0 < found[0].relevance <= 1


async def test_the_row_its_index_entry_its_audit_and_its_event_are_one_transaction(
    world: MemoryWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = ("memory", "search_entry", "audit_event")
    before = [await count(world, table) for table in tables]

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the bus is away")

    with monkeypatch.context() as patch:
        patch.setattr(world.events, "publish", broken)
        with pytest.raises(RuntimeError):
            await save(world, "The cache lives in Redis.")
    assert [await count(world, table) for table in tables] == before
    async with world.events.subscribe(["memory.changed"]) as events:
        saved = await save(world, "The cache lives in Redis.")
        assert saved.memory is not None
        event = await asyncio.wait_for(events.get(), 10)
    assert event.workspace_id == world.ws
    assert event.payload == {"id": saved.memory.id, "slug": saved.memory.slug, "action": "save"}
    assert [await count(world, table) for table in tables] == [number + 1 for number in before]


@pytest.mark.contract("XS-T8")
async def test_saying_the_same_again_returns_the_memory_that_exists(world: MemoryWorld) -> None:
    first = await save(world, "User prefers TypeScript with strict mode enabled for all code examples")
    for again in (
        "User prefers TypeScript with strict mode enabled for all code examples",
        "  user prefers TypeScript with  strict mode\nenabled for all code examples. ",
        "The user prefers TypeScript, with strict mode enabled, for all the code examples!",
    ):
        repeated = await save(world, again)
        assert repeated.outcome == "duplicate"
        assert first.memory is not None
        assert repeated.memory is not None
        assert repeated.memory.id == first.memory.id
    assert await count(world, "memory") == 1


async def test_fifty_saves_at_once_of_one_text_store_one_memory(world: MemoryWorld) -> None:
    texts = ["We ship on Fridays" + "." * (number % 2) for number in range(50)]
    saved = await asyncio.gather(*(save(world, text) for text in texts))
    assert sorted({each.outcome for each in saved}) == ["duplicate", "saved"]
    assert sum(each.outcome == "saved" for each in saved) == 1
    assert len({each.memory.id for each in saved if each.memory}) == 1
    assert await count(world, "memory") == 1
    assert await count(world, "search_entry") == 1


async def test_fifty_saves_at_once_under_one_title_get_fifty_slugs(world: MemoryWorld) -> None:
    saved = await asyncio.gather(*(save(world, f"Port {number} is taken", title="Ports") for number in range(50)))
    slugs = [each.memory.slug for each in saved if each.memory]
    assert len(set(slugs)) == 50
    assert {"ports", "ports-2"} <= set(slugs)


async def test_a_text_in_another_workspace_is_no_duplicate(world: MemoryWorld) -> None:
    await save(world, "The office closes at six")
    other = await world.memory.save(world.agent, world.workspace_ids[1], NewMemory("The office closes at six"))
    assert other.outcome == "saved"


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("", "empty"),
        (" \n\t ", "empty"),
        ("!!! ???", "empty"),
        ("ok, thanks!", "boilerplate"),
        ("TODO", "boilerplate"),
        ("Lorem ipsum dolor sit amet", "boilerplate"),
        ("sdkfjhsdkfjh wqrtpsdf", "gibberish"),
        ("aaaaaaaaaaaaaa", "gibberish"),
    ],
)
async def test_junk_is_rejected_with_the_reason(embedded: MemoryWorld, content: str, word: str) -> None:
    saved = await save(embedded, content)
    assert saved.outcome == "rejected"
    assert saved.memory is None
    assert word in (saved.reason or "")
    assert await count(embedded, "memory") == 0


@pytest.mark.parametrize(
    ("secret", "kind"),
    [
        ("AKIA" + "QYLPMN5HHHFPZAM2", "AWS"),
        ("ghp_" + "a1B2" * 9, "GitHub"),
        ("xoxb-" + "123456789012-abcdefghij", "Slack"),
        ("sk-proj-" + "abcdEFGH1234ijkl5678", "OpenAI"),
        ("sk-ant-" + "api03-abcdEFGH1234ijkl", "Anthropic"),
        ("-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow", "private key"),
        ("eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0.c2ln", "JSON Web Token"),
        ("xero_" + "proj123_abcdEFGH1234ijkl", "Holdfast"),
        ("ks_live_" + "0123456789abcdef" * 4, "Holdfast"),
        ("password=" + "hunter2", "password"),
        ("DB_PASSWORD: " + "'s3cr3t!'", "password"),
        ("postgres://app:" + "pa55word@db.internal/app", "password"),
    ],
)
async def test_a_credential_is_refused_with_its_kind_and_is_nowhere_afterwards(
    embedded: MemoryWorld, secret: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    for new in (
        NewMemory(f"For the deploy use {secret} please"),
        NewMemory("The deploy needs a credential", title=secret),
        NewMemory("The deploy needs a credential", tags=("deploy", secret)),
        NewMemory("The deploy needs a credential", source=secret),
    ):
        saved = await embedded.memory.save(embedded.agent, embedded.ws, new)
        assert saved.outcome == "rejected"
        assert kind in (saved.reason or "")
        assert secret not in (saved.reason or "")
    kept = await save(embedded, "The deploy needs the key named DEPLOY_KEY")
    assert kept.memory is not None
    with pytest.raises(MemoryRejected) as refused:
        await embedded.memory.edit(
            embedded.agent, embedded.ws, kept.memory.id, MemoryChange(content=f"The deploy needs {secret}")
        )
    assert secret not in refused.value.message
    dump = await embedded.database.read(
        lambda tx: [tuple(row) for table in ("memory", "audit_event") for row in tx.all(f"SELECT * FROM {table}")]
    )
    assert secret not in repr(dump)
    assert secret not in caplog.text


async def test_a_memory_of_ten_thousand_words_is_refused_naming_the_limit(embedded: MemoryWorld) -> None:
    with pytest.raises(Invalid) as refused:
        await save(embedded, "word and more words " * 2_500)
    assert "2,000 words" in refused.value.message
    assert refused.value.fields[0].field == "content"


async def test_text_that_no_store_keeps_is_cleaned(world: MemoryWorld) -> None:
    saved = await save(world, "Line\x00 one\r\nline\ud800 two\x07", title="A\x00 title", tags=("a\x00b",))
    assert saved.memory is not None
    assert saved.memory.content == "Line one\nline two"
    assert (saved.memory.title, saved.memory.tags) == ("A title", ("ab",))


@pytest.mark.parametrize(
    ("content", "category"),
    [
        ("User prefers dark mode in the editor", "preference"),
        ("Always use ESLint with the recommended ruleset", "instruction"),
        ("Deploys must be approved by two people", "instruction"),
        ("Please answer in German", "instruction"),
        ("The billing service is owned by Alice", "fact"),
    ],
)
async def test_a_category_is_inferred_from_the_wording(embedded: MemoryWorld, content: str, category: str) -> None:
    saved = await save(embedded, content)
    assert saved.memory is not None
    assert saved.memory.category == category


async def test_a_given_category_is_kept_and_a_wrong_one_explained(embedded: MemoryWorld) -> None:
    saved = await save(embedded, "Shipped M8 with sampling-based approvals.", category="Decision")
    assert saved.memory is not None
    assert saved.memory.category == "decision"
    with pytest.raises(Invalid) as refused:
        await save(embedded, "Something else entirely", category="no/such;thing")
    assert refused.value.fields[0].field == "category"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The API listens on port 8080", "The API now listens on port 9090"),
        ("The billing database is PostgreSQL 15", "The billing database moved to PostgreSQL 17"),
        ("We use Redis for caching sessions", "We no longer use Redis for caching sessions"),
        ("Alice owns the billing service code", "Bob owns the billing service code"),
    ],
)
async def test_a_changed_value_is_saved_and_reported_as_a_contradiction(
    embedded: MemoryWorld, old: str, new: str
) -> None:
    first = await save(embedded, old)
    second = await save(embedded, new)
    assert second.outcome == "saved"
    assert first.memory is not None
    assert [each.memory.id for each in second.contradicts] == [first.memory.id]
    assert second.contradicts[0].reason


async def test_another_subject_is_no_contradiction(embedded: MemoryWorld) -> None:
    await save(embedded, "The API listens on port 8080")
    assert not (await save(embedded, "Carol joined the design team in June")).contradicts


async def test_recall_without_a_query_is_chronological_and_filtered_by_category(world: MemoryWorld) -> None:
    for number in range(5):
        await save(world, f"Build {number} is green", category="ci" if number % 2 else "build")
        world.clock.advance(seconds=1)
    found = await world.memory.recall(world.agent, world.ws, "", limit=3)
    assert [each.memory.content for each in found] == [f"Build {number} is green" for number in (4, 3, 2)]
    found = await world.memory.recall(world.agent, world.ws, None, category="ci")
    assert [each.memory.content for each in found] == ["Build 3 is green", "Build 1 is green"]
    found = await world.memory.recall(world.agent, world.ws, "build green", category="ci")
    assert {each.memory.content for each in found} == {"Build 3 is green", "Build 1 is green"}


async def test_a_list_is_read_page_by_page_without_gap_or_repetition(world: MemoryWorld) -> None:
    for number in range(7):
        await save(world, f"Server {number} runs Debian", tags=("50%_off",) if number == 3 else ("x",))
        world.clock.advance(seconds=number % 2)
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await world.memory.list(world.agent, world.ws, limit=3, cursor=cursor)
        seen += [each.content for each in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [f"Server {number} runs Debian" for number in range(6, -1, -1)]
    tagged = await world.memory.list(world.agent, world.ws, Filters(tag="50%_off"))
    assert [each.content for each in tagged.items] == ["Server 3 runs Debian"]
    assert not (await world.memory.list(world.agent, world.ws, Filters(tag="50_%off"))).items


async def test_trust_is_never_more_than_the_callers_own(embedded: MemoryWorld) -> None:
    async def trust(principal: Principal, content: str, **fields: object) -> str:
        saved = await embedded.memory.save(principal, embedded.ws, NewMemory(content, **fields))  # type: ignore[arg-type]
        assert saved.memory is not None
        return saved.memory.trust

    assert await trust(embedded.person, "Ada says tea is at four") == "person"
    assert await trust(embedded.agent, "The linter is Ruff here", trust="person") == "agent"
    assert await trust(embedded.agent, "Python 3.14 is out", source="https://python.org") == "web"
    assert await trust(embedded.person, "A blog says Rust is fast", trust="web") == "web"


async def test_another_tenant_sees_and_changes_nothing(world: MemoryWorld) -> None:
    saved = await save(world, "The plan is secret sauce")
    assert saved.memory is not None
    stranger = replace(world.person, organization_id=new_id("org"))
    confined = replace(world.agent, workspace_ids=frozenset({world.workspace_ids[1]}))
    for principal in (stranger, confined):
        for attempt in (
            world.memory.get(principal, world.ws, saved.memory.id),
            world.memory.recall(principal, world.ws, "plan"),
            world.memory.search(principal, world.ws, "plan"),
            world.memory.list(principal, world.ws),
            world.memory.save(principal, world.ws, NewMemory("Another plan is afoot")),
            world.memory.save(principal, world.ws, NewMemory("")),
            world.memory.edit(principal, world.ws, saved.memory.id, MemoryChange(content="x y z")),
            world.memory.retract(principal, world.ws, saved.memory.id),
            world.memory.forget(principal, world.ws, saved.memory.id),
        ):
            with pytest.raises(NotFound):
                await attempt
    with pytest.raises(NotFound):
        await world.memory.get(world.agent, world.workspace_ids[1], saved.memory.id)


async def test_reading_needs_read_and_writing_needs_inference(world: MemoryWorld) -> None:
    reader = replace(world.agent, scopes=frozenset({"read"}))
    manager = replace(world.agent, scopes=frozenset({"management"}))
    with pytest.raises(Forbidden):
        await world.memory.save(reader, world.ws, NewMemory("Readers do not write"))
    assert await world.memory.recall(reader, world.ws, None) == []
    with pytest.raises(Forbidden):
        await world.memory.recall(manager, world.ws, None)


async def test_search_covers_every_type_asked_for_and_explains_an_unknown_one(world: MemoryWorld) -> None:
    await save(world, "The gateway speaks gRPC")
    hits = await world.memory.search(world.agent, world.ws, "gateway", types=["memories", "documents"])
    assert [(hit.type, hit.meta["slug"]) for hit in hits] == [("memory", "the-gateway-speaks-grpc")]
    assert await world.memory.search(world.agent, world.ws, "gateway", types=["decision"]) == []
    with pytest.raises(Invalid, match="milestone"):
        await world.memory.search(world.agent, world.ws, "gateway", types=["poem"])
    with pytest.raises(Invalid):
        await world.memory.search(world.agent, world.ws, "  ")


async def test_slugs_are_completed_by_their_beginning(world: MemoryWorld) -> None:
    for content in ("Deploy on Monday", "Deploy with Helm", "Drink water"):
        await save(world, content)
    assert await world.memory.slugs(world.agent, world.ws, "deploy") == ["deploy-on-monday", "deploy-with-helm"]
