"""Nothing runs twice: equal requests are one invocation, under concurrency, within the window and past crashes."""

import asyncio

import pytest

from holdfast.features.catalog.model import ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.execution import store
from holdfast.storage.database import Tx
from tests.features.execution.conftest import Plant


@pytest.mark.contract("XM-14")
async def test_fifty_equal_requests_at_once_are_one_invocation_and_one_run(plant: Plant) -> None:
    await plant.policy("count", "auto")
    asked = await asyncio.gather(*(plant.invoke("demo.count", arguments={"name": "a"}) for _ in range(50)))
    assert len({each.invocation.id for each in asked}) == 1
    assert sum(each.is_new for each in asked) == 1
    ended = await plant.ended(asked[0].invocation)
    assert (ended.status, plant.server.runs["count"]) == ("succeeded", 1)


@pytest.mark.contract("XM-14")
async def test_other_arguments_another_session_or_another_key_is_another_call(plant: Plant) -> None:
    await plant.policy("count", "auto")
    other = await plant.new_key()
    asked = [
        await plant.invoke("demo.count", arguments={"name": "a"}),
        await plant.invoke("demo.count", arguments={"name": "b"}),
        await plant.invoke("demo.count", arguments={"name": "a"}, session_id="two"),
        await plant.invoke("demo.count", arguments={"name": "a"}, principal=other),
    ]
    assert len({each.invocation.id for each in asked}) == 4
    again = await plant.invoke("demo.count", arguments={"name": "a"})
    assert (again.is_new, again.invocation.id) == (False, asked[0].invocation.id)


async def test_arguments_that_mean_the_same_are_the_same_call(plant: Plant) -> None:
    await plant.policy("slow", "auto")
    plant.server.go_on.set()
    first = await plant.invoke("demo.slow", arguments={"seconds": 1, "name": "a"})
    again = await plant.invoke("demo.slow", arguments={"name": "a", "seconds": 1.0})
    assert again.invocation.id == first.invocation.id


@pytest.mark.contract("XM-14")
async def test_after_the_window_an_equal_request_runs_again(plant: Plant) -> None:
    await plant.policy("count", "auto")
    first = (await plant.invoke("demo.count")).invocation
    await plant.ended(first)
    plant.clock.advance(seconds=540)
    assert (await plant.invoke("demo.count")).invocation.id == first.id
    plant.clock.advance(seconds=120)
    second = (await plant.invoke("demo.count")).invocation
    await plant.ended(second)
    assert second.id != first.id and plant.server.runs["count"] == 2


async def test_a_tool_that_changes_nothing_answers_anew_when_its_caller_waits_for_it(plant: Plant) -> None:
    first = (await plant.invoke("demo.add", arguments={"left": 1}, fresh=True)).invocation
    await plant.ended(first)
    second = await plant.invoke("demo.add", arguments={"left": 1}, fresh=True)
    assert second.is_new and second.invocation.id != first.id


@pytest.mark.contract("XM-14")
async def test_a_run_that_may_have_reached_its_tool_is_not_begun_again(plant: Plant) -> None:
    await plant.policy("count", "auto")
    plant.server.is_dying = True
    ended = await plant.ended((await plant.invoke("demo.count")).invocation)
    assert (ended.status, plant.server.runs["count"]) == ("failed", 1)
    assert ended.error is not None and ended.error["outcome_unknown"] is True


@pytest.mark.contract("XM-14")
@pytest.mark.parametrize("idempotent", [False, True])
async def test_a_run_whose_process_died_is_unknown_unless_an_operator_says_it_may_be_repeated(
    plant: Plant, idempotent: bool
) -> None:
    await plant.services[ToolPins].set(
        plant.owner, plant.workspace, "demo", "count", ToolChange(policy="approve", idempotent=idempotent)
    )
    invocation = (await plant.invoke("demo.count")).invocation
    # As a process leaves it that was killed while the tool worked: sent, and a job that nobody holds.
    job = {"invocation_id": invocation.id}

    def left(tx: Tx) -> None:
        store.queue(tx, invocation.id, plant.services.jobs.enqueue(tx, "invocation.run", job), None)
        store.send(tx, invocation.id, plant.clock.now())

    await plant.services.database.write(left)
    ended = await plant.ended(invocation)
    if idempotent:
        assert (ended.status, plant.server.runs["count"]) == ("succeeded", 1)
    else:
        assert ended.error is not None
        assert (ended.status, ended.error["code"], plant.server.runs["count"]) == ("failed", "outcome_unknown", 0)


async def test_what_never_reached_its_tool_may_be_asked_for_again(plant: Plant) -> None:
    first = (await plant.invoke("demo.count")).invocation
    await plant.execution.cancel(plant.owner, plant.workspace, first.id)
    assert (await plant.invoke("demo.count")).invocation.id != first.id
