"""The first page: everything that waits for the person, with the way to it."""

from dataclasses import replace

from holdfast.core.clock import Clock
from holdfast.core.ids import new_id
from holdfast.features.cases import store as case_store
from holdfast.features.cases.model import Case, NewCase, Taking
from holdfast.features.cases.proofs import store as proof_store
from holdfast.features.cases.proofs.model import Outcome
from holdfast.features.cases.service import CaseService
from holdfast.features.chat import store as chat_store
from holdfast.features.chat.model import ChatQuestion
from holdfast.features.chat.service import ChatService
from holdfast.features.identity.model import NewKey
from holdfast.storage.database import Tx
from tests.support.features.cases import seen_to_pass
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


async def test_cases_of_mine_that_are_due_or_blocked_wait_for_me_and_others_do_not(sqlite_server: TestServer) -> None:
    services, workspace, me = sqlite_server.services, sqlite_server.start.workspace_id, sqlite_server.start.owner_id
    now, cases = services[Clock].now(), services[CaseService]

    async def add(title: str, assignee: str, due_days: float | None) -> Case:
        due = None if due_days is None else now + round(due_days * 86_400_000)
        return await cases.add(sqlite_server.owner, workspace, NewCase(title=title, assignee=assignee, due_at=due))

    late = await add("Mend the <gate>", me, -1)
    await add("Far away", me, 20)
    await add("Of somebody else", "Grace", -1)
    shut = await add("Paint it", me, None)
    await cases.move(sqlite_server.owner, workspace, shut.id, "BLOCKED", reason="no <paint>")
    shown = await _needs(sqlite_server, me)
    assert f'href="/w/default/cases/{late.id}"' in shown and "Mend the &lt;gate&gt;" in shown and "is due" in shown
    assert f'href="/w/default/cases/{shut.id}"' in shown and "is blocked" in shown and "no &lt;paint&gt;" in shown
    assert "Far away" not in shown and "Of somebody else" not in shown
    await cases.move(sqlite_server.owner, workspace, late.id, "CANCELLED", reason="not needed")
    assert late.id not in await _needs(sqlite_server, me)


async def test_a_claim_of_mine_that_ends_soon_waits_for_me(sqlite_server: TestServer) -> None:
    cases, me = sqlite_server.services[CaseService], sqlite_server.start.owner_id
    mine, grace = (replace(sqlite_server.owner, actor=actor) for actor in (me, "usr_grace"))
    for title, who, seconds in (("Ends soon", mine, 600), ("Ends late", mine, 7200), ("Another's", grace, 600)):
        case = await cases.add(sqlite_server.owner, sqlite_server.start.workspace_id, NewCase(title=title))
        await cases.claims.claim(who, None, case.id, Taking(lease_seconds=seconds))
    shown = await _needs(sqlite_server, me)
    assert "Ends soon" in shown and "your claim ends soon" in shown
    assert "Ends late" not in shown and "Another" not in shown


async def test_proofs_that_went_stale_or_flaky_wait_for_whose_cases_they_prove(sqlite_server: TestServer) -> None:
    services, me = sqlite_server.services, sqlite_server.start.owner_id
    head, before = "1" * 40, "0" * 40
    seen: dict[str, list[tuple[str, Outcome]]] = {
        "Went stale": [(before, "passed")],
        "Went flaky": [(head, "passed"), (head, "failed")],
        "Holds": [(head, "passed")],
    }

    def verifying(tx: Tx, case: Case, runs: list[tuple[str, Outcome]]) -> None:
        kept = replace(case, state="VERIFYING", head_commit=head)
        case_store.put(tx, kept)
        proof, run = seen_to_pass(kept, head)
        proof_store.add(tx, proof)
        for commit, outcome in runs:
            proof_store.put_run(tx, replace(run, id=new_id("prun"), commit=commit, outcome=outcome))

    for title, runs in seen.items():
        new = NewCase(title=title, criteria=("It adds",), assignee=me)
        case = await services[CaseService].add(sqlite_server.owner, sqlite_server.start.workspace_id, new)
        await services.database.write(lambda tx, case=case, runs=runs: verifying(tx, case, runs))  # type: ignore[misc] # both bound here
    shown = await _needs(sqlite_server, me)
    assert "Went stale" in shown and "proof is stale" in shown and "Went flaky" in shown and "proof is flaky" in shown
    assert "Holds" not in shown
