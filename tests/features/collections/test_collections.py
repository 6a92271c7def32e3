"""Records, edges and vectors of a workspace: kept once, found again, never another workspace's."""

import pytest

from holdfast.core.errors import HoldfastError, Invalid
from holdfast.engines.search.model import Query
from holdfast.features.collections.model import NewRecord
from holdfast.features.collections.service import GraphRecords
from holdfast.features.collections.vectors import VectorCollections
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.world import World, new_world


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> World:
    return await new_world(database, clock)


async def write(world: World, type: str, collection: str = "default", **data: object) -> str:
    graph = world.services[GraphRecords]
    new = NewRecord(type=type, data=data, collection=collection)
    return (await graph.write(world.owner, world.start.workspace_id, new))[0].id


async def test_the_same_person_is_recognised_by_address_before_name(world: World) -> None:
    graph, here = world.services[GraphRecords], world.start.workspace_id
    ada = await write(world, "person", name="Ada Lovelace", email="Ada@X.example")
    other = await write(world, "person", name="Ada Lovelace", email="other@x.example")
    found = await graph.resolve(world.owner, here, "person", name="Ada Lovelace", email="ada@x.example")
    assert [(each.record.id, each.score) for each in found] == [(ada, 1.0)]
    both = await graph.resolve(world.owner, here, "person", name="ada  lovelace")
    assert {each.record.id for each in both} == {ada, other}
    typo = await graph.resolve(world.owner, here, "person", name="Ada Lovelac")
    assert {each.record.id for each in typo} == {ada, other} and typo[0].score < 0.9
    assert await graph.resolve(world.owner, here, "person", name="Grace Hopper") == []


async def test_records_are_found_by_the_search_over_everything(world: World) -> None:
    made = await write(world, "incident", title="Outage of the payment gateway", cause="expired certificate")
    hits = await world.services.search.search(Query(world.start.workspace_id, "payment gateway outage"))
    assert made in [hit.id for hit in hits]


async def test_collections_and_order_narrow_a_query(world: World) -> None:
    graph, here = world.services[GraphRecords], world.start.workspace_id
    for number in (3, 1, 2):
        await write(world, "item", "shop" if number < 3 else "other", n=number)
    ordered = await graph.query(world.owner, here, "find item order by n desc limit 2")
    assert [thing.seen.data["n"] for thing in ordered.found] == [3, 2] and ordered.total == 3
    narrowed = await graph.query(world.owner, here, "find item order by n", collection="shop")
    assert [thing.seen.data["n"] for thing in narrowed.found] == [1, 2]


async def test_another_workspace_sees_nothing_of_it(world: World) -> None:
    graph, vectors = world.services[GraphRecords], world.services[VectorCollections]
    made = await write(world, "person", name="Ada")
    await vectors.upsert(world.owner, world.start.workspace_id, "v", vector=[1.0, 2.0])
    there = (await world.services.workspaces.create(world.owner, world.start.project_id, "Other")).id
    assert (await graph.query(world.owner, there, "find *")).total == 0
    assert await graph.collections(world.owner, there) == []
    assert await vectors.search(world.owner, there, vector=[1.0, 2.0]) == []
    with pytest.raises(HoldfastError):
        await graph.write(world.owner, there, NewRecord(type="person", data={"id": made, "name": "Eve"}))
    with pytest.raises(Invalid):
        await graph.relate(world.owner, there, made, "knows", made)


@pytest.mark.parametrize("vector", [[], [0.0, 0.0], [float("nan")], [float("inf")], [1.0] * 5_000])
async def test_a_vector_that_points_nowhere_is_refused(world: World, vector: list[float]) -> None:
    with pytest.raises(Invalid) as refused:
        await world.services[VectorCollections].upsert(world.owner, world.start.workspace_id, "v", vector=vector)
    assert refused.value.fields[0].field == "vector"
