"""The first page: everything that waits for the person, with the way to it."""

from holdfast.core.clock import Clock
from holdfast.core.ids import new_id
from holdfast.features.chat import store as chat_store
from holdfast.features.chat.model import ChatQuestion
from holdfast.features.chat.service import ChatService
from holdfast.features.identity.model import NewKey
from tests.support.pages.dashboard import seed, work_done
from tests.support.server import TestServer


async def _needs(server: TestServer, user_id: str) -> str:
    async with await server.browser(user_id) as person:
        page = (await person.get("/")).text
    return page.partition('id="needs"')[2].partition("</section>")[0]


async def test_a_question_that_waits_leads_to_its_chat(sqlite_server: TestServer) -> None:
    services, workspace = sqlite_server.services, sqlite_server.start.workspace_id
    chat = await services[ChatService].create(sqlite_server.owner, workspace, title="Release")
    question = ChatQuestion(
        new_id("ask"), chat.id, "msg_1", "call_1", {"question": "Ship <b>now</b>?"}, (), "pending", None, None, 1, None
    )
    await services.database.write(lambda tx: chat_store.insert_question(tx, workspace, question))
    shown = await _needs(sqlite_server, sqlite_server.start.owner_id)
    assert "Ship &lt;b&gt;now&lt;/b&gt;?" in shown and f'href="/chat/default/{chat.id}"' in shown
    assert "waits for your answer" in shown and "Release" in shown
    await services.database.write(
        lambda tx: chat_store.answer_question(tx, question.correlation_id, "yes", by="usr", now=2)
    )
    assert "Nothing waits for you." in await _needs(sqlite_server, sqlite_server.start.owner_id)


async def test_work_that_failed_leads_to_what_it_was_about(sqlite_server: TestServer) -> None:
    async with sqlite_server.client() as client:
        file = {"file": ("broken.pdf", b"%PDF-1.7 nothing else", "application/pdf")}
        made = await client.post(f"/api/workspaces/{sqlite_server.start.workspace_id}/documents", files=file)
    await work_done(sqlite_server)
    shown = await _needs(sqlite_server, sqlite_server.start.owner_id)
    assert f'href="/w/default/documents/{made.json()["id"]}"' in shown and "failed" in shown


async def test_keys_that_end_soon_are_told_to_those_who_can_make_others(sqlite_server: TestServer) -> None:
    services = sqlite_server.services
    now = services[Clock].now()
    for name, days in (("ends soon", 5), ("ends late", 200)):
        new = NewKey(name=name, project_id=sqlite_server.start.project_id, expires_at=now + days * 86_400_000)
        await services.keys.create(sqlite_server.owner, new)
    member = await services.identity.create_user(sqlite_server.owner, email="mo@example.com", name="Mo")
    shown = await _needs(sqlite_server, sqlite_server.start.owner_id)
    assert "ends soon" in shown and "ends late" not in shown and 'href="/settings/keys"' in shown
    assert "Nothing waits for you." in await _needs(sqlite_server, member.id)


async def test_contradictions_wait_until_they_are_settled(sqlite_server: TestServer) -> None:
    await seed(sqlite_server)
    assert "/w/default/memory/contradictions" in await _needs(sqlite_server, sqlite_server.start.owner_id)
