"""Owns the proof of the pages of cases: the list, the queue, a case, and what people do there."""

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from holdfast.core.clock import iso
from holdfast.features.cases.model import NewCase, NewLink
from holdfast.features.cases.proofs.service import ProofService
from holdfast.features.cases.service import CaseService
from holdfast.features.identity.service import local_principal
from holdfast.features.intelligence.model import NewRelation, Ref
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.memory.model import NewMemory
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.server import TestServer, serving


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database, requests_per_minute=100_000) as running:
        yield running


@pytest.fixture
async def owner(server: TestServer) -> AsyncIterator[httpx.AsyncClient]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(await server.browser(server.start.owner_id))


async def _post(owner: httpx.AsyncClient, path: str, **form: str) -> httpx.Response:
    return await owner.post(path, data={**form, "csrf": owner.headers["X-CSRF-Token"]})


async def test_a_person_takes_a_case_from_its_form_to_done(server: TestServer, owner: httpx.AsyncClient) -> None:
    made = await _post(owner, "/w/default/cases", title="Paint <b>", criteria="It is green\nIt is dry", kind="task")
    assert made.status_code == 303, made.text
    one = made.headers["location"]
    page = (await owner.get(one)).text
    assert "Paint &lt;b&gt;" in page and "It is green" in page and "no proof speaks of it" in page
    assert (await _post(owner, f"{one}/claim")).status_code == 303
    assert "held by" in (await owner.get(one)).text
    for state in ("PLANNING", "IMPLEMENTING", "VERIFYING"):
        assert (await _post(owner, f"{one}/move", state=state, reason="on")).status_code == 303
    refused = await _post(owner, f"{one}/move", state="DONE")
    assert refused.status_code == 409 and "It is green" in refused.text
    assert (await _post(owner, f"{one}/word", claim="I looked at it")).status_code == 303
    assert (await _post(owner, f"{one}/comments", text="Well done, @ada")).status_code == 303
    assert (await _post(owner, f"{one}/move", state="DONE")).status_code == 303
    page = (await owner.get(one)).text
    assert "I looked at it" in page and "Well done" in page and "DONE" in page


async def test_the_list_is_narrowed_to_what_is_ready_or_in_a_state(
    server: TestServer, owner: httpx.AsyncClient
) -> None:
    cases = server.services[CaseService]
    free = await cases.add(server.owner, server.start.workspace_id, NewCase(title="Free"))
    shut = await cases.add(server.owner, server.start.workspace_id, NewCase(title="Shut"))
    await cases.move(server.owner, None, shut.id, "BLOCKED", reason="no paint")
    for query, shown, hidden in (("ready", free, shut), ("BLOCKED", shut, free)):
        page = (await owner.get(f"/w/default/cases?state={query}")).text
        assert shown.id in page and hidden.id not in page
    assert (await owner.get("/w/default/cases?state=nonsense")).status_code == 422
    assert (await owner.get("/w/default/cases/case_0")).status_code == 404
    assert "no paint" in (await owner.get(f"/w/default/cases/{shut.id}")).text


def _column(page: str, state: str) -> str:
    return page.partition(f'data-state="{state}"')[2].partition("</section>")[0]


async def test_the_board_has_a_column_for_each_state_and_moves_cards_between_them(
    server: TestServer, owner: httpx.AsyncClient
) -> None:
    cases = server.services[CaseService]
    late = await cases.add(server.owner, server.start.workspace_id, NewCase(title="Later <i>", priority=3))
    soon = await cases.add(server.owner, server.start.workspace_id, NewCase(title="Sooner", priority=1))
    page = (await owner.get("/w/default/cases?view=board")).text
    assert "Later &lt;i&gt;" in _column(page, "OPEN")
    assert _column(page, "OPEN").index(soon.id) < _column(page, "OPEN").index(late.id)
    one = f"/w/default/cases/{late.id}/move"
    moved = await _post(owner, one, view="board", version="1", state="PLANNING")
    assert (moved.status_code, moved.headers["location"]) == (303, f"/w/default/cases?view=board#{late.id}")
    page = (await owner.get("/w/default/cases?view=board")).text
    assert late.id in _column(page, "PLANNING") and late.id not in _column(page, "OPEN")
    illegal = await _post(owner, one, view="board", state="DONE")
    assert illegal.status_code == 409 and "IMPLEMENTING, BLOCKED, CANCELLED" in illegal.text
    stale = await _post(owner, one, view="board", version="1", state="IMPLEMENTING")
    assert stale.status_code == 409 and "version 2, not 1" in stale.text
    assert late.id in _column(stale.text, "PLANNING")


async def test_the_board_asks_for_the_reason_that_a_move_needs(server: TestServer, owner: httpx.AsyncClient) -> None:
    case = await server.services[CaseService].add(server.owner, server.start.workspace_id, NewCase(title="Paint it"))
    one = f"/w/default/cases/{case.id}/move"
    asked = await _post(owner, one, view="board", version="1", state="BLOCKED")
    assert asked.status_code == 422 and 'name="reason"' in asked.text and "Paint it → BLOCKED" in asked.text
    assert case.id in _column(asked.text, "OPEN")
    told = await _post(owner, one, view="board", version="1", state="BLOCKED", reason="no <paint>")
    assert told.status_code == 303
    assert "no &lt;paint&gt;" in _column((await owner.get("/w/default/cases?view=board")).text, "BLOCKED")


async def test_a_full_column_leads_to_the_list_of_its_state(server: TestServer, owner: httpx.AsyncClient) -> None:
    cases = server.services[CaseService]
    for number in range(31):
        await cases.add(server.owner, server.start.workspace_id, NewCase(title=f"Case {number}"))
    column = _column((await owner.get("/w/default/cases?view=board")).text, "OPEN")
    assert column.count("<li ") == 30 and 'href="/w/default/cases?state=OPEN"' in column


async def test_the_column_beside_a_chat_lists_what_is_not_over(server: TestServer, owner: httpx.AsyncClient) -> None:
    cases = server.services[CaseService]
    titles = ("Open <b>", "Blocked", "Cancelled")
    made = [await cases.add(server.owner, server.start.workspace_id, NewCase(title=title)) for title in titles]
    await cases.move(server.owner, None, made[1].id, "BLOCKED", reason="no paint")
    await cases.move(server.owner, None, made[2].id, "CANCELLED", reason="not needed")
    part = (await owner.get("/w/default/manager/cases", headers={"HX-Request": "true"})).text
    assert part.index("Blocked") < part.index("Open &lt;b&gt;") and "Cancelled" not in part
    assert f'href="/w/default/cases/{made[0].id}"' in part and 'href="/w/default/cases?view=board"' in part
    whole = await owner.get("/w/default/manager/cases")
    assert (whole.status_code, whole.headers["location"]) == (303, "/w/default/cases")


async def test_a_case_is_given_to_somebody_until_a_day_and_taken_back(
    server: TestServer, owner: httpx.AsyncClient
) -> None:
    cases = server.services[CaseService]
    case = await cases.add(server.owner, server.start.workspace_id, NewCase(title="Paint it"))
    one = f"/w/default/cases/{case.id}"
    plan = {"assignee": "Ada <b>", "due": "2030-05-17", "priority": "0", "labels": "ops, paint,"}
    assert (await _post(owner, f"{one}/plan", **plan)).status_code == 303
    kept = await cases.get(server.owner, None, case.id)
    assert (kept.assignee, kept.priority, kept.labels) == ("Ada <b>", 0, ("ops", "paint"))
    assert kept.due_at is not None and iso(kept.due_at) == "2030-05-17T23:59:59.999Z"
    page = (await owner.get(one)).text
    assert "for Ada &lt;b&gt;" in page and 'value="2030-05-17"' in page and 'value="ops, paint"' in page
    assert (await _post(owner, f"{one}/plan", priority="2")).status_code == 303
    kept = await cases.get(server.owner, None, case.id)
    assert (kept.assignee, kept.due_at, kept.labels) == (None, None, ())
    for wrong in ({"due": "soon", "priority": "2"}, {"due": "9999-12-31T23:59Z", "priority": "9"}, {"priority": ""}):
        assert (await _post(owner, f"{one}/plan", **wrong)).status_code == 422
    assert (await _post(owner, f"{one}/plan", due="9999-12-31T23:59Z", priority="1")).status_code == 303
    assert (await owner.get(one)).status_code == 200


async def test_a_case_shows_which_proof_speaks_of_which_criterion(server: TestServer, owner: httpx.AsyncClient) -> None:
    new = NewCase(title="Paint it", criteria=("It is green", "It is dry"))
    case = await server.services[CaseService].add(server.owner, server.start.workspace_id, new)
    one = f"/w/default/cases/{case.id}"
    assert "<table" not in (await owner.get(one)).text
    for claim, criterion in (("It shines green", "c1"), ("I touched all of it", "")):
        assert (await _post(owner, f"{one}/word", claim=claim, criteria=criterion)).status_code == 303
    table = (await owner.get(one)).text.partition("<tbody>")[2].partition("</tbody>")[0]
    green, dry = (row.partition("</tr>")[0] for row in table.split("<tr>")[1:])
    # What both say together, then each.
    assert green.count('class="state good"') == 3 and "–" not in green
    assert dry.count('class="state good"') == 2 and "–" in dry


async def test_the_history_says_in_words_what_happened_and_to_what(
    server: TestServer, owner: httpx.AsyncClient
) -> None:
    cases, place = server.services[CaseService], server.start.workspace_id
    other = await cases.add(server.owner, place, NewCase(title="Buy <paint>"))
    case = await cases.add(server.owner, place, NewCase(title="Paint it"))
    await cases.edit(server.owner, place, case.id, {"priority": 1, "body": "All of it"})
    await cases.links.link(server.owner, place, case.id, NewLink("related", other.id))
    await cases.move(server.owner, place, case.id, "PLANNING", reason="it is dry")
    page = (await owner.get(f"/w/default/cases/{case.id}")).text
    told = " ".join(page.partition("History</h2>")[2].split())
    assert "changed it: body, priority" in told and "moved it: OPEN → PLANNING: it is dry" in told
    assert f'tied it: related <a href="/w/default/cases/{other.id}">Buy &lt;paint&gt;</a>' in told


async def test_a_case_names_what_it_waits_for_and_what_it_is_part_of(
    server: TestServer, owner: httpx.AsyncClient
) -> None:
    cases, workspace = server.services[CaseService], server.start.workspace_id
    whole = await cases.add(server.owner, workspace, NewCase(title="The <whole> fence"))
    part = await cases.add(server.owner, workspace, NewCase(title="The gate", parent=whole.id))
    first = NewCase(title="Buy paint", links=(NewLink("blocks", part.id),))
    before = await cases.add(server.owner, workspace, first)
    shown = (await owner.get(f"/w/default/cases/{part.id}")).text.partition("Links</h2>")[2]
    for word, other, title in (("is part of", whole, "The &lt;whole&gt; fence"), ("waits for", before, "Buy paint")):
        assert f'{word} <a href="/w/default/cases/{other.id}">{title}</a>' in shown
    above = (await owner.get(f"/w/default/cases/{whole.id}")).text
    assert f'has the part <a href="/w/default/cases/{part.id}">The gate</a>' in above


async def test_a_case_shows_what_is_around_it_as_a_picture_and_as_a_table(
    server: TestServer, owner: httpx.AsyncClient
) -> None:
    cases, place = server.services[CaseService], server.start.workspace_id
    alone = await cases.add(server.owner, place, NewCase(title="Alone"))
    page = (await owner.get(f"/w/default/cases/{alone.id}")).text
    assert "<graph-view" not in page and f'href="/w/default/graph?centre={alone.id}"' in page
    roof = await cases.add(server.owner, place, NewCase(title="Roof <i>"))
    paint = await cases.add(server.owner, place, NewCase(title="Paint", parent=roof.id))
    await cases.add(server.owner, place, NewCase(title="Sweep", links=(NewLink("blocks", paint.id),)))
    saved = await server.services.memory.save(server.owner, place, NewMemory("Paint needs a dry roof."))
    assert saved.memory is not None
    tie = NewRelation(Ref("memory", saved.memory.id), Ref("case", paint.id), "explains")
    await server.services[IntelligenceService].relations.relate(server.owner, place, tie)
    page = (await owner.get(f"/w/default/cases/{paint.id}")).text
    drawn = page.partition("<graph-view")[2].partition("</graph-view>")[0]
    assert drawn.count("data-node=") == 4 and drawn.count("<line") == 3 and "Roof &lt;i&gt;" in drawn
    assert f'href="/w/default/graph?centre={roof.id}"' in drawn
    table = page.partition('aria-labelledby="relations"')[2].partition("</table>")[0]
    assert all(word in table for word in ("part of", "blocks", "explains", "Sweep"))


async def test_environments_show_who_declares_them_and_what_is_wrong_and_are_looked_at_again(
    server: TestServer, owner: httpx.AsyncClient, tmp_path: Path
) -> None:
    proofs, place, at = server.services[ProofService], server.start.workspace_id, "/w/default/environments"
    assert "No environment is prepared" in (await owner.get(at)).text
    prepared = tmp_path / "shop"
    prepared.mkdir()
    (prepared / "pip.txt").write_text("one")
    local = local_principal(server.start.organization_id)
    made = await proofs.register(local, place, "shop", str(prepared))
    case = await server.services[CaseService].add(server.owner, place, NewCase(title="Sum", environment="shop"))
    page = (await owner.get(at)).text
    assert str(prepared) in page and made.digest in page and "1 open case names it" in page and "usable" in page
    assert f'href="{at}#shop"' in (await owner.get(f"/w/default/cases/{case.id}")).text
    (prepared / "pip.txt").write_text("one and two")
    assert (await _post(owner, f"{at}/shop/look")).status_code == 303
    (again,) = await proofs.environments(server.owner, place)
    assert again.digest != made.digest and again.digest in (await owner.get(at)).text
    shutil.rmtree(prepared)
    assert (await _post(owner, f"{at}/shop/look")).status_code == 303
    assert "The directory is gone" in (await owner.get(at)).text
    refused = await _post(owner, f"{at}/shop/repositories", repositories="nowhere")
    assert refused.status_code == 422
    assert (await _post(owner, f"{at}/shop/remove")).status_code == 303
    # The case still names it.
    page = (await owner.get(at)).text
    assert "not registered" in page and f"{at}/shop/look" not in page
    assert (await _post(owner, f"{at}/shop/look")).status_code == 404
