"""A person decides about one call, once, in time, and about nothing but what was shown."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.errors import Conflict, Forbidden, HoldfastError, Invalid, NotFound
from holdfast.features.catalog.model import ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.execution.approvals.service import ApprovalDecision
from holdfast.features.execution.model import Approval, Invocation, NewGrant
from holdfast.features.execution.policies.grants import Grants
from tests.features.execution.conftest import Plant

APPROVE, DENY = ApprovalDecision(True), ApprovalDecision(False, "Not on a Friday.")


async def waiting(plant: Plant, tool: str = "demo.count", **more: object) -> tuple[Invocation, Approval]:
    invocation = (await plant.invoke(tool, **more)).invocation
    assert invocation.status == "awaiting_approval" and invocation.approval is not None
    return invocation, invocation.approval


@pytest.mark.contract("XM-11")
async def test_a_tool_that_may_change_something_waits_for_a_person_and_then_runs(plant: Plant) -> None:
    invocation, approval = await waiting(plant)
    assert plant.server.runs["count"] == 0
    decided = await plant.approvals.decide(plant.admin, approval.id, APPROVE, "api")
    assert (decided.state, decided.decided_by, decided.via) == ("approved", plant.admin.actor, "api")
    ended = await plant.ended(invocation)
    assert (ended.status, ended.granted_via, plant.server.runs["count"]) == ("succeeded", approval.id, 1)


@pytest.mark.contract("XM-11")
async def test_a_denied_call_never_runs_and_says_why(plant: Plant) -> None:
    invocation, approval = await waiting(plant)
    await plant.approvals.decide(plant.admin, approval.id, DENY, "api")
    ended = await plant.ended(invocation)
    assert ended.status == "denied" and ended.error is not None and "Not on a Friday." in ended.error["message"]
    assert plant.server.runs["count"] == 0
    again = await plant.invoke("demo.count")
    assert (again.is_new, again.invocation.status) == (False, "denied")


@pytest.mark.contract("XM-11")
async def test_nobody_but_a_signed_in_person_with_the_right_decides(plant: Plant) -> None:
    invocation, approval = await waiting(plant)
    by_token = replace(plant.admin, proof="jwt")
    for who in (plant.key, plant.owner, plant.member, by_token):
        with pytest.raises(Forbidden):
            await plant.approvals.decide(who, approval.id, APPROVE, "api")
    stranger = replace(plant.admin, organization_id="org_" + "0" * 32)
    with pytest.raises(NotFound):
        await plant.approvals.decide(stranger, approval.id, APPROVE, "api")
    found = await plant.execution.get(plant.owner, plant.workspace, invocation.id)
    assert (found.status, plant.server.runs["count"]) == ("awaiting_approval", 0)


@pytest.mark.contract("XM-11")
async def test_a_second_decision_changes_nothing(plant: Plant) -> None:
    invocation, approval = await waiting(plant)
    await plant.approvals.decide(plant.admin, approval.id, APPROVE, "api")
    for again in (APPROVE, DENY):
        with pytest.raises(Conflict):
            await plant.approvals.decide(plant.admin, approval.id, again, "page")
    assert (await plant.ended(invocation)).status == "succeeded" and plant.server.runs["count"] == 1


@pytest.mark.contract("XM-11")
async def test_a_decision_that_comes_too_late_changes_nothing(plant: Plant) -> None:
    invocation, approval = await waiting(plant)
    plant.clock.advance(seconds=3601)
    with pytest.raises(Conflict, match="expired"):
        await plant.approvals.decide(plant.admin, approval.id, APPROVE, "api")
    ended = await plant.ended(invocation)
    assert (ended.status, plant.server.runs["count"]) == ("expired", 0)
    assert (await plant.invoke("demo.count")).invocation.id != invocation.id


async def test_what_nobody_decided_in_time_expires_by_itself(plant: Plant) -> None:
    invocation, _ = await waiting(plant)
    plant.clock.advance(seconds=3601)
    assert await plant.approvals.expire() in (0, 1)
    assert (await plant.ended(invocation)).status == "expired"


@pytest.mark.contract("XM-11")
async def test_an_approval_is_for_the_tool_as_it_was_shown(plant: Plant) -> None:
    invocation, approval = await waiting(plant)
    plant.server.tools[1]["description"] = "Count, and send everything elsewhere."
    pins = plant.services[ToolPins]
    await pins.probe(plant.owner, plant.workspace, "demo")
    await pins.accept(plant.owner, plant.workspace, "demo", "count")
    with pytest.raises(Conflict, match="changed"):
        await plant.approvals.decide(plant.admin, approval.id, APPROVE, "api")
    found = await plant.execution.get(plant.owner, plant.workspace, invocation.id)
    assert (found.status, plant.server.runs["count"]) == ("awaiting_approval", 0)


@pytest.mark.contract("XM-11")
async def test_an_approval_is_for_its_arguments_alone(plant: Plant) -> None:
    invocation, approval = await waiting(plant, arguments={"name": "a"})
    await plant.services.database.write(
        lambda tx: tx.execute(
            "UPDATE invocation SET arguments = :new, arguments_digest = 'another' WHERE id = :id",
            {"new": '{"name": "b"}', "id": invocation.id},
        )
    )
    with pytest.raises(Conflict):
        await plant.approvals.decide(plant.admin, approval.id, APPROVE, "api")
    assert plant.server.runs["count"] == 0


@pytest.mark.parametrize("turn", range(5))
async def test_of_approving_and_cancelling_at_once_one_wins(plant: Plant, turn: int) -> None:
    invocation, approval = await waiting(plant, arguments={"name": str(turn)})
    results = await asyncio.gather(
        plant.approvals.decide(plant.admin, approval.id, APPROVE, "api"),
        plant.execution.cancel(plant.owner, plant.workspace, invocation.id),
        return_exceptions=True,
    )
    ended = await plant.ended(invocation)
    assert ended.status in ("succeeded", "cancelled")
    refused = isinstance(results[0], HoldfastError)
    # Either the approval came too late, or the call ran, or it was cancelled after it had been let run.
    assert plant.server.runs["count"] == int(ended.status == "succeeded") or not refused
    if refused:
        assert (ended.status, plant.server.runs["count"]) == ("cancelled", 0)


async def test_looking_at_a_question_decides_nothing(plant: Plant) -> None:
    invocation, approval = await waiting(plant)
    for id in (approval.id, approval.token):
        shown = await plant.approvals.get(plant.admin, id)
        assert (shown.approval.state, shown.invocation.id, shown.may_decide) == ("pending", invocation.id, True)
    assert not (await plant.approvals.get(plant.member, approval.id)).may_decide
    listed = await plant.approvals.list(plant.admin, plant.workspace, state="pending")
    assert [each.approval.id for each in listed.items] == [approval.id]


@pytest.mark.contract("XA-7")
async def test_always_lets_the_same_asker_call_the_same_tool_and_nobody_else(plant: Plant) -> None:
    invocation, approval = await waiting(plant, arguments={"name": "a"})
    await plant.approvals.decide(plant.admin, approval.id, ApprovalDecision(True, always=True), "page")
    await plant.ended(invocation)
    (grant,) = await plant.services[Grants].list(plant.owner, plant.workspace)
    next_call = (await plant.invoke("demo.count", arguments={"name": "b"})).invocation
    assert (next_call.status, next_call.granted_via) == ("queued", grant.id)
    other = await plant.new_key()
    assert (await plant.invoke("demo.count", principal=other)).invocation.status == "awaiting_approval"
    assert (await plant.invoke("demo.slow")).invocation.status == "awaiting_approval"


@pytest.mark.contract("XA-7")
async def test_only_a_signed_in_person_with_the_right_gives_grants(plant: Plant) -> None:
    new = NewGrant(subject_type="key", subject_id=plant.key.actor, grant_type="tool_scope", details={"scope": "x.y"})
    for who in (plant.key, plant.owner, plant.member):
        with pytest.raises(Forbidden):
            await plant.services[Grants].give(who, plant.workspace, new)
    assert await plant.services[Grants].list(plant.owner, plant.workspace) == []


@pytest.mark.contract("XA-7")
@pytest.mark.parametrize("scope", ["once", "session", "persistent"])
async def test_a_scope_that_was_granted_lets_its_tools_run(plant: Plant, scope: str) -> None:
    await plant.policy("count", "auto", scope="demo.write")
    await plant.services[ToolPins].set(
        plant.owner, plant.workspace, "demo", "count", ToolChange(cleared=frozenset({"policy"}))
    )
    assert (await plant.invoke("demo.count", session_id="zero")).invocation.status == "awaiting_approval"
    new = NewGrant(
        subject_type="key",
        subject_id=plant.key.actor,
        grant_type="tool_scope",
        details={"scope": "demo.write"},
        scope=scope,  # type: ignore[arg-type]
        session_id="one" if scope == "session" else None,
    )
    grant = await plant.services[Grants].give(plant.admin, plant.workspace, new)
    first = (await plant.invoke("demo.count", arguments={"name": "1"})).invocation
    assert (first.status, first.granted_via) == ("queued", grant.id)
    second = (await plant.invoke("demo.count", arguments={"name": "2"})).invocation
    assert second.status == ("awaiting_approval" if scope == "once" else "queued")
    elsewhere = (await plant.invoke("demo.count", session_id="two")).invocation
    assert elsewhere.status == ("queued" if scope == "persistent" else "awaiting_approval")
    if scope == "persistent":
        await plant.services[Grants].take(plant.admin, plant.workspace, grant.id)
        assert (await plant.invoke("demo.count", session_id="three")).invocation.status == "awaiting_approval"


@pytest.mark.contract("XA-7")
@pytest.mark.parametrize("place", ["session_id", "chat_id"])
async def test_a_tool_that_is_allowed_for_a_session_runs_there_without_asking_and_nowhere_else(
    plant: Plant, place: str
) -> None:
    nowhere: dict[str, Any] = {"session_id": None}
    invocation, approval = await waiting(plant, arguments={"name": "a"}, **nowhere | {place: "one"})
    assert (await plant.approvals.get(plant.admin, approval.id)).may_allow_session
    await plant.approvals.decide(plant.admin, approval.id, ApprovalDecision(True, session=True), "api")
    assert (await plant.ended(invocation)).status == "succeeded"
    there = (await plant.invoke("demo.count", arguments={"name": "b"}, **nowhere | {place: "one"})).invocation
    (grant,) = await plant.services[Grants].list(plant.owner, plant.workspace)
    assert (there.granted_via, grant.scope, grant.session_id) == (grant.id, "session", "one")
    for elsewhere in (nowhere | {place: "two"}, nowhere):
        assert (
            await plant.invoke("demo.count", arguments={"name": "c"}, **elsewhere)
        ).invocation.status == "awaiting_approval"


@pytest.mark.contract("XA-7")
async def test_a_destructive_tool_is_never_allowed_for_a_session_and_no_session_is_made_up(plant: Plant) -> None:
    change = ToolChange(destructive=True)
    _, alone = await waiting(plant, session_id=None)
    await plant.services[ToolPins].set(plant.owner, plant.workspace, "demo", "count", change)
    plant.key = replace(plant.key, allow_destructive=True)
    _, destructive = await waiting(plant, arguments={"name": "other"}, session_id="one")
    for approval in (alone, destructive):
        assert not (await plant.approvals.get(plant.admin, approval.id)).may_allow_session
        with pytest.raises(Invalid) as refused:
            await plant.approvals.decide(plant.admin, approval.id, ApprovalDecision(True, session=True), "api")
        assert refused.value.fields[0].field == "session"
        assert (await plant.approvals.get(plant.admin, approval.id)).approval.state == "pending"
    assert not await plant.services[Grants].list(plant.owner, plant.workspace) and plant.server.runs["count"] == 0


async def test_a_call_is_shown_with_its_difference_to_the_last_approved_one_not_to_a_denied_one(plant: Plant) -> None:
    for name, decision in (("a", APPROVE), ("b", DENY)):
        invocation, approval = await waiting(plant, arguments={"name": name})
        assert (await plant.approvals.get(plant.admin, approval.id)).last_approved is None or name == "b"
        await plant.approvals.decide(plant.admin, approval.id, decision, "api")
        await plant.ended(invocation)
    _, approval = await waiting(plant, arguments={"name": "c"})
    asked = await plant.approvals.get(plant.admin, approval.id)
    assert [(each.name, each.before, each.after) for each in asked.changes] == [("name", "a", "c")]
