"""Calls of a server that runs begin with the transaction that asks for them: the same answers, the same care."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from holdfast.engines.events.bus import EventBus
from holdfast.engines.jobs.engine import JobEngine
from holdfast.engines.mcp_client.base import CallNotTaken, LoginNeeded
from holdfast.features.audit.model import AuditFilter
from holdfast.features.execution import store
from holdfast.features.execution.model import CallProgress, Invocation
from holdfast.features.execution.runs.immediate import ImmediateCall
from holdfast.storage.database import Tx
from tests.features.execution.conftest import Plant

WARM = {"left": 1}


async def warm(plant: Plant) -> None:
    """Have the server running and looked at."""
    plant.services[JobEngine]
    await plant.ended((await plant.invoke("demo.add", arguments=WARM)).invocation)


async def heard(call: ImmediateCall) -> list[CallProgress | Invocation | None]:
    """All that was heard of a call, to its end."""
    assert call.news is not None
    found: list[CallProgress | Invocation | None] = []
    async with asyncio.timeout(30):
        while not found or isinstance(found[-1], CallProgress):
            found.append(await call.news.get())
    return found


class Published:
    """What each committed transaction publishes: as often as the store tried one, and whatever others commit beside."""

    def __init__(self, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
        self._made: list[tuple[Tx, list[tuple[str, str]]]] = []
        bus = plant.services[EventBus]
        self._publish = bus.publish
        monkeypatch.setattr(bus, "publish", self._noting)

    def of(self, *ids: str) -> list[str]:
        """The topics of each transaction that concerns one of these."""
        told = (" ".join(topic for topic, about in each if about in ids) for _, each in self._made)
        return [topics for topics in told if topics]

    def _noting(self, tx: Tx, topic: str, payload: Mapping[str, Any], **more: Any) -> None:
        # A transaction that loses a race is begun anew: only what was committed counts.
        tx.after_commit(lambda: self._committed(tx, topic, str(payload.get("id"))))
        self._publish(tx, topic, payload, **more)

    def _committed(self, tx: Tx, topic: str, about: str) -> None:
        told = next((told for made, told in self._made if made is tx), None)
        if told is None:
            self._made.append((tx, told := []))
        told.append((topic, about))


@pytest.mark.contract("XM-15")
async def test_a_call_of_a_running_server_is_two_transactions(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    await warm(plant)
    published = Published(plant, monkeypatch)
    asked = await plant.ask("demo.add", arguments={"left": 2, "right": 3})
    assert asked.invocation.status == "running" and asked.invocation.sent_at is not None
    (ended,) = await heard(asked)
    assert isinstance(ended, Invocation) and ended.result is not None
    assert (ended.status, ended.result["structuredContent"]) == ("succeeded", {"total": 5})
    made = published.of(asked.invocation.id, str(asked.invocation.job_id))
    assert made == ["job.running invocation.running", "invocation.succeeded job.succeeded"]
    assert ended == await plant.execution.get(plant.owner, plant.workspace, asked.invocation.id)


async def test_the_first_call_of_a_server_is_queued_while_it_starts(plant: Plant) -> None:
    asked = await plant.ask("demo.add", arguments=WARM)
    assert (asked.news, asked.invocation.status) == (None, "queued")
    assert (await plant.ended(asked.invocation)).status == "succeeded"


@pytest.mark.contract("XM-14")
async def test_fifty_equal_calls_of_a_running_server_are_one_run(plant: Plant) -> None:
    await plant.policy("count", "auto")
    await warm(plant)
    asked = await asyncio.gather(*(plant.ask("demo.count", arguments={"name": "a"}) for _ in range(50)))
    assert len({each.invocation.id for each in asked}) == 1
    assert sum(each.news is not None for each in asked) == 1
    ended = await plant.ended(asked[0].invocation)
    assert (ended.status, plant.server.runs["count"]) == ("succeeded", 1)


@pytest.mark.contract("XM-14")
async def test_a_call_that_began_at_once_is_unknown_after_its_process_died(plant: Plant) -> None:
    await plant.policy("slow", "auto")
    await warm(plant)
    asked = await plant.ask("demo.slow")
    await plant.server.begun.wait()

    def orphan(tx: Tx) -> None:
        """As a killed process leaves it: another owner's lease, which has run out."""
        tx.execute(
            "UPDATE job SET lease_owner = 'run_dead', lease_until = 0 WHERE id = :id", {"id": asked.invocation.job_id}
        )

    await plant.services.database.write(orphan)
    ended = await plant.ended(asked.invocation)
    assert ended.error is not None
    assert (ended.status, ended.error["code"], plant.server.runs["slow"]) == ("failed", "outcome_unknown", 1)
    repeated = await plant.ask("demo.slow")
    assert (repeated.invocation.id, plant.server.runs["slow"]) == (ended.id, 1)


@pytest.mark.contract("XM-15")
async def test_progress_is_heard_at_once_and_kept(plant: Plant) -> None:
    await plant.policy("slow", "auto")
    await warm(plant)
    asked = await plant.ask("demo.slow")
    assert asked.news is not None
    async with asyncio.timeout(30):
        told = await asked.news.get()
    assert told == CallProgress(1, 2, "half")
    kept = await plant.services.database.read(lambda tx: store.find(tx, asked.invocation.id))
    assert kept is not None and kept.progress == told
    plant.server.go_on.set()
    (ended,) = await heard(asked)
    assert isinstance(ended, Invocation) and ended.status == "succeeded"


@pytest.mark.contract("XM-9")
async def test_cancelling_a_call_that_began_at_once_reaches_the_server(plant: Plant) -> None:
    await plant.policy("slow", "auto")
    await warm(plant)
    asked = await plant.ask("demo.slow")
    await plant.server.begun.wait()
    await plant.execution.cancel(plant.key, plant.workspace, asked.invocation.id)
    ended = await plant.ended(asked.invocation)
    assert (ended.status, plant.server.cancelled["slow"]) == ("cancelled", 1)


async def test_what_a_person_decides_about_does_not_begin(plant: Plant) -> None:
    await warm(plant)
    asked = await plant.ask("demo.count")
    assert (asked.news, asked.invocation.status, plant.server.runs["count"]) == (None, "awaiting_approval", 0)
    await plant.policy("count", "deny")
    refused = await plant.ask("demo.count", arguments={"name": "b"})
    assert (refused.news, refused.invocation.status, plant.server.runs["count"]) == (None, "denied", 0)


async def test_a_tool_that_was_changed_after_the_look_does_not_begin(plant: Plant) -> None:
    """What was read before the transaction counts only as long as the transaction finds it unchanged."""
    await plant.policy("count", "auto")
    await warm(plant)
    database = plant.services.database
    write = database.write

    async def after_a_change(work: Callable[[Tx], Any]) -> Any:
        def changed(tx: Tx) -> Any:
            tx.execute("UPDATE mcp_server SET revision = revision + 1")
            return work(tx)

        database.write = write  # type: ignore[method-assign]
        return await write(changed)

    database.write = after_a_change  # type: ignore[method-assign]
    asked = await plant.ask("demo.count")
    assert (asked.news, asked.invocation.status) == (None, "queued")
    assert (await plant.ended(asked.invocation)).status == "succeeded"


@pytest.mark.contract("XA-9")
async def test_a_call_that_began_at_once_is_in_the_audit_log_with_every_field(plant: Plant) -> None:
    await warm(plant)
    (ended,) = await heard(await plant.ask("demo.add", arguments={"left": 5}))
    assert isinstance(ended, Invocation)
    wanted = AuditFilter(action="session.mcp.tool_called")
    page = await plant.services.audit.list(plant.owner, wanted)
    detail = next(each.detail for each in page.items if each.detail["invocation_id"] == ended.id)
    assert {"name", "tool", "duration_ms", "granted_via", "status"} <= set(detail)
    assert (detail["status"], detail["tool"]) == ("succeeded", "add")


@pytest.mark.contract("XM-14")
async def test_what_wanted_a_login_first_may_be_asked_for_again_once_the_person_signed_in(plant: Plant) -> None:
    await plant.policy("count", "auto")
    await warm(plant)
    plant.server.refusal = CallNotTaken(
        "demo needs you to sign in: your login has ended.", "https://holdfast/connect/x"
    )
    (refused,) = await heard(await plant.ask("demo.count"))
    assert isinstance(refused, Invocation) and refused.error is not None
    assert (refused.status, plant.server.runs["count"]) == ("failed", 0)
    assert refused.error["code"] == "login_needed" and "outcome_unknown" not in refused.error
    plant.server.refusal = None
    (ended,) = await heard(await plant.ask("demo.count"))
    assert isinstance(ended, Invocation)
    assert (ended.status, plant.server.runs["count"]) == ("succeeded", 1) and ended.id != refused.id


@pytest.mark.contract("XM-14")
async def test_a_login_that_ended_in_the_middle_of_a_call_leaves_it_unknown(plant: Plant) -> None:
    await plant.policy("count", "auto")
    await warm(plant)
    plant.server.refusal = LoginNeeded("demo needs you to sign in.", "https://holdfast/connect/x")
    (lost,) = await heard(await plant.ask("demo.count"))
    assert isinstance(lost, Invocation) and lost.error is not None and lost.error["outcome_unknown"] is True
    plant.server.refusal = None
    assert (await plant.ask("demo.count")).invocation.id == lost.id
