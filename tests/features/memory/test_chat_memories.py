"""What is saved in a chat is that chat's: recalled there, found nowhere else, until a person shares it."""

import pytest

from holdfast.core.errors import Conflict, Forbidden, Invalid
from holdfast.features.memory.model import Filters, Memory, MemoryChange, NewMemory
from holdfast.storage.database import Database
from tests.features.memory.saving import count, save
from tests.support.clock import MovableClock
from tests.support.features.memories import MemoryWorld, memory_world

pytestmark = pytest.mark.contract("XS-T8")

FACT = "The reports are written in British English"


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> MemoryWorld:
    return await memory_world(database, clock)


async def saved(world: MemoryWorld, content: str, chat_id: str | None = "chat_a") -> Memory:
    found = (await save(world, content, chat_id=chat_id)).memory
    assert found is not None
    return found


async def recalled(world: MemoryWorld, query: str | None, chat_id: str | None = None) -> list[str]:
    found = await world.memory.recall(world.agent, world.ws, query, chat_id=chat_id, minimum_relevance=0.1)
    return [each.memory.content for each in found]


async def everywhere(world: MemoryWorld) -> list[str]:
    """Where somebody outside of the chat comes across a memory without knowing its name."""
    places = []
    if FACT in await recalled(world, "reports British English"):
        places.append("recall")
    if FACT in await recalled(world, None):
        places.append("recall without a query")
    hits = await world.memory.search(world.agent, world.ws, "reports British English")
    if any(FACT in (hit.text or hit.snippet) for hit in hits):
        places.append("search")
    if (await world.memory.list(world.agent, world.ws)).items:
        places.append("list")
    if await world.memory.slugs(world.agent, world.ws, "the-reports"):
        places.append("completion")
    return places


async def test_only_its_chat_recalls_it(world: MemoryWorld) -> None:
    await saved(world, FACT)
    assert await recalled(world, "reports British English", "chat_a") == [FACT]
    assert await recalled(world, None, "chat_a") == [FACT]
    assert await recalled(world, "reports British English", "chat_b") == []
    assert await everywhere(world) == []


async def test_a_person_shares_it_with_everybody(world: MemoryWorld) -> None:
    memory = await saved(world, FACT)
    with pytest.raises(Forbidden, match="signed-in person"):
        await world.memory.share(world.agent, world.ws, memory.id)
    shared = await world.memory.share(world.person, world.ws, memory.slug)
    assert (shared.visibility, shared.chat_id, shared.slug) == ("workspace", "chat_a", memory.slug)
    assert await world.memory.share(world.person, world.ws, memory.slug) == shared
    assert await everywhere(world) == ["recall", "recall without a query", "search", "list", "completion"]
    assert await recalled(world, "reports British English", "chat_a") == [FACT]


async def test_a_management_list_finds_it_by_its_chat(world: MemoryWorld) -> None:
    memory = await saved(world, FACT)
    everybodys = await saved(world, "Releases are on Tuesday", None)

    async def listed(filters: Filters) -> set[str]:
        return {each.id for each in (await world.memory.list(world.person, world.ws, filters)).items}

    assert await listed(Filters(chat_id="chat_a", visibility=None)) == {memory.id}
    assert await listed(Filters(visibility="chat")) == {memory.id}
    assert await listed(Filters()) == {everybodys.id}
    assert await listed(Filters(visibility=None)) == {memory.id, everybodys.id}


async def test_two_chats_may_say_the_same_and_each_only_once(world: MemoryWorld) -> None:
    first = await saved(world, FACT)
    assert (await save(world, FACT + ".", chat_id="chat_a")).outcome == "duplicate"
    other = await save(world, FACT, chat_id="chat_b")
    assert other.outcome == "saved" and other.memory is not None and other.memory.id != first.id
    whole = await save(world, FACT)
    assert whole.outcome == "saved"
    # What the workspace knows, no chat needs to keep again; and sharing it twice is refused with the remedy.
    third = await save(world, FACT, chat_id="chat_c")
    assert third.outcome == "duplicate" and third.memory == whole.memory
    with pytest.raises(Conflict, match="says this already in the workspace"):
        await world.memory.share(world.person, world.ws, first.id)


async def test_a_chat_contradicts_itself_and_the_workspace_but_no_other_chat(world: MemoryWorld) -> None:
    await saved(world, "The deploy window is Tuesday at 10:00", "chat_a")
    again = await save(world, "The deploy window is Thursday at 10:00", chat_id="chat_a")
    assert [each.memory.chat_id for each in again.contradicts] == ["chat_a"]
    elsewhere = await save(world, "The deploy window is Friday at 10:00", chat_id="chat_b")
    assert list(elsewhere.contradicts) == []
    assert list((await save(world, "The deploy window is Monday at 10:00")).contradicts) == []


async def test_a_chat_replaces_only_what_is_its_own(world: MemoryWorld) -> None:
    everybodys = await saved(world, "Releases are on Tuesday", None)
    others = await saved(world, "Standup is at nine", "chat_b")
    for superseded in (everybodys, others):
        with pytest.raises(Invalid, match="its own memories"):
            await save(world, "It changed to Friday at noon", chat_id="chat_a", supersedes=superseded.slug)
    own = await saved(world, "Lunch is at twelve")
    assert (await save(world, "Lunch is at one", chat_id="chat_a", supersedes=own.slug)).outcome == "saved"
    assert await recalled(world, "lunch", "chat_a") == ["Lunch is at one"]


async def test_editing_retracting_and_forgetting_reach_it(world: MemoryWorld) -> None:
    memory = await saved(world, FACT)
    edited = await world.memory.edit(world.agent, world.ws, memory.id, MemoryChange(content=FACT + " always"))
    assert edited.visibility == "chat"
    assert await recalled(world, "reports British English", "chat_a") == [FACT + " always"]
    await world.memory.retract(world.agent, world.ws, memory.id)
    assert await recalled(world, "reports British English", "chat_a") == []
    await world.memory.forget(world.agent, world.ws, memory.id)
    assert [await count(world, table) for table in ("memory", "search_entry")] == [0, 0]


async def test_what_a_workspace_memory_says_is_not_hidden_by_a_chats_copy(world: MemoryWorld) -> None:
    await world.memory.save(world.agent, world.ws, NewMemory(FACT))
    await saved(world, "The reports also have a summary in French")
    assert FACT in await recalled(world, "reports British English", "chat_a")
    assert FACT in await recalled(world, "reports British English")
