"""What pages read by queries of their own, on each store: facets, lineage, old words, open questions, sessions."""

from holdfast.core.ids import new_id
from holdfast.features.chat import store as chat_store
from holdfast.features.chat.model import ChatQuestion
from holdfast.features.chat.service import ChatService
from holdfast.features.memory.model import Filters, MemoryChange, NewMemory
from holdfast.features.memory.service import MemoryService
from holdfast.features.memory.writing.overview import MemoryOverview
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.server import TestServer, serving


async def test_facets_count_what_the_list_shows(server: TestServer) -> None:
    memories, overview = server.services[MemoryService], server.services[MemoryOverview]
    workspace = server.start.workspace_id
    for text, category, tags in (
        ("Ada owns the payments gateway.", "fact", ("people", "pay")),
        ("Answer in short sentences.", "preference", ()),
        ("The ledger closes at midnight.", "fact", ("pay",)),
    ):
        await memories.save(server.owner, workspace, NewMemory(text, category, tags=tags))
    await memories.retract(server.owner, workspace, "the-ledger-closes-at-midnight")
    everything = await overview.facets(server.owner, workspace, Filters(status=None))
    assert everything.categories == (("fact", 2), ("preference", 1))
    assert everything.tags == (("pay", 2), ("people", 1))
    current = await overview.facets(server.owner, workspace, Filters())
    assert current.categories == (("fact", 1), ("preference", 1)) and ("pay", 1) in current.tags


async def test_a_memory_knows_which_it_replaced_and_which_replaced_it(server: TestServer) -> None:
    memories, overview = server.services[MemoryService], server.services[MemoryOverview]
    workspace = server.start.workspace_id
    first = (await memories.save(server.owner, workspace, NewMemory("The deploy runs on Fridays."))).memory
    assert first is not None
    new = NewMemory("The deploy runs on Mondays.")
    second = (await memories.supersede(server.owner, workspace, first.id, new)).memory
    assert second is not None
    older = await overview.lineage(server.owner, workspace, first.id)
    newer = await overview.lineage(server.owner, workspace, second.id)
    assert older.after is not None and older.after.id == second.id and older.before == ()
    assert [each.id for each in newer.before] == [first.id] and newer.after is None


async def test_a_list_as_of_a_moment_is_in_the_words_of_that_moment(database: Database) -> None:
    clock = MovableClock()
    async with serving(database, clock=clock) as server:
        memories, workspace = server.services[MemoryService], server.start.workspace_id
        saved = (await memories.save(server.owner, workspace, NewMemory("The deploy runs on Fridays."))).memory
        assert saved is not None
        clock.advance(days=2)
        change = MemoryChange(content="The deploy runs on Mondays.")
        await memories.edit(server.owner, workspace, saved.id, change)
        (now,) = (await memories.list(server.owner, workspace)).items
        (then,) = (await memories.list(server.owner, workspace, Filters(as_of=saved.learned_at + 1))).items
    assert now.content == "The deploy runs on Mondays."
    assert then.content == "The deploy runs on Fridays."


async def test_questions_wait_until_they_are_answered(server: TestServer) -> None:
    chats, workspace = server.services[ChatService], server.start.workspace_id
    chat = await chats.create(server.owner, workspace, title="Release")
    asked = ChatQuestion(
        new_id("ask"), chat.id, "msg", "call", {"question": "Now?"}, (), "pending", None, None, 1, None
    )
    await server.services.database.write(lambda tx: chat_store.insert_question(tx, workspace, asked))
    ((found, title),) = await chats.waiting(server.owner, workspace)
    assert (found.correlation_id, title) == (asked.correlation_id, "Release")
    await server.services.database.write(
        lambda tx: chat_store.answer_question(tx, asked.correlation_id, "yes", by="usr", now=2)
    )
    assert await chats.waiting(server.owner, workspace) == []


async def test_a_person_sees_their_sessions_and_ends_the_others(server: TestServer) -> None:
    sign_in, owner_id = server.services.sign_in, server.start.owner_id
    here = await sign_in.by_link(await server.link(owner_id))
    await sign_in.by_link(await server.link(owner_id))
    assert sorted(each.is_this for each in await sign_in.sessions(here.cookie)) == [False, True]
    await sign_in.sign_out_elsewhere(here.cookie)
    assert [each.is_this for each in await sign_in.sessions(here.cookie)] == [True]
