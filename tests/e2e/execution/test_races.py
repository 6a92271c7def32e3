"""Requests that meet each other at a started Holdfast: equal calls, and decisions that come twice or from nobody."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.execution.counting import PROGRAM
from tests.support.execution.product import Product, product
from tests.support.execution.tally import Tally, tally
from tests.support.sandbox.programs import PYTHON
from tests.surfaces.mcp.harness import ERAS, MODERN

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

APPROVE = {"decision": "approve"}
ROUNDS = 8


@asynccontextmanager
async def site(data_dir: Path, **env: str) -> AsyncIterator[tuple[Product, Tally]]:
    """A server whose tool `demo.count` runs at once, and whose `demo.slow` waits for a person."""
    async with tally() as count, product(data_dir, **env) as at:
        told = ("--env", f"COUNT_URL={count.url}", "--allow", count.place)
        await at.run("catalog", "add", "demo", "--command", PYTHON, "--arg", "-I", "--arg", str(PROGRAM), *told)
        await at.probed("demo")
        await at.policy("demo", "count", policy="auto")
        yield at, count


async def waiting(at: Product, name: str) -> tuple[str, str]:
    """A call that waits for a person: its id, and the path of the page."""
    found = await at.invoke("demo.slow", name=name, seconds=0.01)
    assert found["status"] == "awaiting_approval", found
    return found["invocation_id"], "/approve/" + found["approval_url"].rpartition("/")[2]


async def decide(who: httpx.AsyncClient, page: str, body: dict[str, Any] = APPROVE) -> httpx.Response:
    return await who.post(f"/api/approvals/{page.rpartition('/')[2]}", json=body)


async def equal_calls(at: Product, count: Tally) -> None:
    """Fifty at once over REST, and fifty over MCP sessions of each era, are one call each."""
    asked = await asyncio.gather(*(at.invoke("demo.count", name="rest") for _ in range(50)))
    assert len({each["invocation_id"] for each in asked}) == 1
    assert (await at.ended(asked[0]["invocation_id"]))["status"] == "succeeded"
    for era in ERAS:
        given = {"tool_name": "demo.count", "arguments": {"name": era}}
        async with at.client(era) as client:
            answers = await asyncio.gather(*(client.call_tool("xerotier.exec.invoke", given) for _ in range(50)))
            ids = {str((answer.structured_content or {})["invocation_id"]) for answer in answers}
        assert len(ids) == 1
        assert (await at.ended(ids.pop()))["status"] == "succeeded"
    # The stateless era has no session: an equal call of the same key within the window is the same call.
    async with at.client(MODERN) as client:
        again = await client.call_tool(
            "xerotier.exec.invoke", {"tool_name": "demo.count", "arguments": {"name": MODERN}}
        )
    assert (again.structured_content or {})["status"] == "succeeded"
    assert {name: count.runs["count", name] for name in ("rest", *ERAS)} == dict.fromkeys(("rest", *ERAS), 1)


async def approve_and_cancel(at: Product, count: Tally, person: httpx.AsyncClient) -> None:
    """Of approving and cancelling at once one wins, and the call does what the winner said."""
    for turn in range(ROUNDS):
        id, page = await waiting(at, f"both-{turn}")
        cancel = at.post(f"/invocations/{id}/cancel")
        approved, cancelled = await asyncio.gather(decide(person, page), cancel)
        ended = await at.ended(id)
        assert approved.status_code in (200, 409), approved.text
        ran = count.runs["slow", f"both-{turn}"]
        if approved.status_code == 409:
            assert (ended["status"], ran) == ("cancelled", 0), ended
        else:
            # Let run and then cancelled, or cancelled too late; in no case twice.
            assert ended["status"] in ("succeeded", "cancelled") and ran <= 1, ended
            assert ended["status"] == "cancelled" or cancelled["status"] != "cancelled"


async def decide_twice(at: Product, count: Tally, person: httpx.AsyncClient) -> None:
    """Ten decisions at once: one counts, the others are told so."""
    id, page = await waiting(at, "twice")
    answers = await asyncio.gather(
        *(decide(person, page, {"decision": "approve" if turn % 2 else "deny"}) for turn in range(10))
    )
    codes = sorted(answer.status_code for answer in answers)
    assert codes == [200, *[409] * 9], [answer.text for answer in answers]
    (winner,) = (answer.json() for answer in answers if answer.status_code == 200)
    ended = await at.ended(id)
    assert ended["status"] == ("succeeded" if winner["state"] == "approved" else "denied"), (winner, ended)
    assert count.runs["slow", "twice"] == (1 if winner["state"] == "approved" else 0)


async def looked_at(at: Product, count: Tally, person: httpx.AsyncClient) -> None:
    """Opening the page, as a person, a chat's preview or a browser ahead of time, decides nothing."""
    id, page = await waiting(at, "looked")
    async with httpx.AsyncClient(base_url=at.url, timeout=60, trust_env=False) as nobody:
        ahead = {"Purpose": "prefetch", "Sec-Purpose": "prefetch;prerender"}
        for who in (person, nobody):
            for method in ("GET", "HEAD", "OPTIONS"):
                await who.request(method, page, headers=ahead)
                await who.request(method, f"{page}?decision=approve", headers=ahead)
        assert (await decide(nobody, page)).status_code == 401
        assert (await nobody.post(page, data=APPROVE)).status_code in (303, 401, 403)
    # A form of another site has the cookie, and not the token.
    token = person.headers.pop("X-CSRF-Token")
    assert (await decide(person, page)).status_code == 403
    assert (await person.post(page, data=APPROVE, headers={"Origin": "https://evil.example"})).status_code == 403
    person.headers["X-CSRF-Token"] = token
    assert (await at.get(f"/invocations/{id}"))["status"] == "awaiting_approval"
    assert count.runs["slow", "looked"] == 0


async def by_others(at: Product, count: Tally) -> None:
    """A member who does not administer the workspace, and every key, are refused."""
    member = await at.run("users", "create", "--email", "mia@example.com", "--name", "Mia")
    id, page = await waiting(at, "others")
    async with at.person(member["id"]) as mia, at.rest() as key:
        assert (await decide(mia, page)).status_code == 403
        assert (await mia.post(page, data={**APPROVE, "csrf_token": mia.headers["X-CSRF-Token"]})).status_code == 403
        assert (await decide(key, page)).status_code == 403
    assert (await at.get(f"/invocations/{id}"))["status"] == "awaiting_approval"
    assert count.runs["slow", "others"] == 0


async def with_other_arguments(at: Product, count: Tally, person: httpx.AsyncClient) -> None:
    """A decision is for the arguments that were shown; another call of the same tool waits for its own."""
    id, page = await waiting(at, "shown")
    other, _ = await waiting(at, "hidden")
    answer = await decide(person, page, {**APPROVE, "arguments": {"name": "hidden"}})
    assert answer.status_code == 422 and "arguments" in answer.text
    assert (await decide(person, page)).status_code == 200
    assert (await at.ended(id))["status"] == "succeeded"
    assert (await at.get(f"/invocations/{other}"))["status"] == "awaiting_approval"
    assert (count.runs["slow", "shown"], count.runs["slow", "hidden"]) == (1, 0)


async def test_calls_and_decisions_that_meet_each_other_count_once(tmp_path: Path) -> None:
    async with site(tmp_path / "data") as (at, count), at.person() as person:
        await equal_calls(at, count)
        await approve_and_cancel(at, count, person)
        await decide_twice(at, count, person)
        await looked_at(at, count, person)
        await by_others(at, count)
        await with_other_arguments(at, count, person)
        assert count.twice() == []


async def test_a_decision_after_its_time_changes_nothing(tmp_path: Path) -> None:
    async with site(tmp_path / "data", HOLDFAST_APPROVAL_SECONDS="1") as (at, count), at.person() as person:
        id, page = await waiting(at, "late")
        ended = await at.ended(id)
        assert ended["status"] == "expired"
        assert (await decide(person, page)).status_code == 409
        assert (await at.get(f"/invocations/{id}"))["status"] == "expired"
        assert count.runs["slow", "late"] == 0
