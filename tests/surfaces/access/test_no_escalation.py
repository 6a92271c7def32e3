"""From any credential, no sequence of up to four operations yields one that can do what the first could not."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import httpx
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from holdfast.core.clock import SystemClock
from holdfast.core.principal import ROLES, SCOPES, TIERS
from holdfast.server.routes import rest_operations
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.access.escalation import (
    LATE,
    OPERATIONS,
    SOON,
    Step,
    begin,
    given,
    new_world,
    powers,
    sign_in_again,
    take,
)
from tests.support.properties import examples
from tests.support.server import TestServer, serving


def _keys(*scopes: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "name": st.sampled_from(["mine", "wide", "small"]),
            "kind": st.sampled_from(["project", "project", "organization"]),
            "project": st.sampled_from([0, 0, 1]),
            "scopes": st.sampled_from(scopes),
            "tier": st.sampled_from(TIERS),
            "workspaces": st.sampled_from([None, None, "first", "both", "none"]),
            "allow_destructive": st.booleans(),
            "expires": st.sampled_from([None, SOON, LATE]),
        }
    )


_manage: tuple[list[str], ...] = ["management"], ["management", "inference"], ["management", "read"], [*SCOPES]
# A key's workspaces are of its own project.
_starting_keys = _keys(*_manage, *_manage, ["read"], ["inference"]).map(
    lambda key: {**key, "name": "start", "project": 0}
)
_wanted_keys = _keys(*_manage, ["read"], ["inference"]).map(
    lambda key: {**key, "workspaces": None} if key["project"] else key
)
_people = st.sampled_from(["admin", "admin", "local", "member", "both", "owner"])
_of_keys = ("make a key", "rotate by name", "rotate", "change a key", "bundle")


def _sequences(operations: Sequence[str]) -> st.SearchStrategy[list[Step]]:
    """Longer than four, since whatever four of them can do in a row a longer one can: an example costs its world."""
    step = st.builds(
        Step,
        operation=st.sampled_from(operations),
        who=st.integers(0, 4),
        target=st.integers(0, 12),
        key=_wanted_keys,
        role=st.sampled_from(ROLES),
        workspace=st.integers(0, 3),
    )
    return st.lists(step, min_size=4, max_size=24)


@pytest.fixture
async def at(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    # As open as an operator can make it, and without the limits that would stop an attacker for another reason.
    free: dict[str, Any] = {"sign_ins_per_minute": 1_000_000, "requests_per_minute": 1_000_000}
    async with serving(sqlite_database, allow_organizations=True, **free) as server:
        yield server


@pytest.fixture
async def http(at: TestServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=at.url, timeout=60, trust_env=False) as client:
        yield client


async def attack(
    server: TestServer, http: httpx.AsyncClient, start: str | Mapping[str, Any], steps: list[Step]
) -> None:
    world = await new_world(server, list(rest_operations(server.services)), http, SystemClock().now())
    first = await begin(world, start)
    allowed = await given(world, first)
    for step in steps:
        await take(world, step)
    await sign_in_again(world)
    for held in world.held:
        gained = await powers(world, held) - allowed
        assert not gained, f"from {start}: {world.done}: gained {sorted(gained)[:5]}"


@pytest.mark.slow
@examples(30)
@drawn(start=_people, steps=_sequences(OPERATIONS))
async def test_no_person_gets_more_than_they_were_given(
    at: TestServer, http: httpx.AsyncClient, start: str, steps: list[Step]
) -> None:
    await attack(at, http, start, steps)


@pytest.mark.slow
@examples(30)
@drawn(start=_starting_keys, steps=_sequences((*_of_keys, *_of_keys, *OPERATIONS)))
async def test_no_key_gets_more_than_it_was_given(
    at: TestServer, http: httpx.AsyncClient, start: dict[str, Any], steps: list[Step]
) -> None:
    await attack(at, http, start, steps)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["owner", "admin", "member", "local", "both"])
async def test_no_person_reaches_beyond_themselves_by_anybody_or_any_role(
    at: TestServer, http: httpx.AsyncClient, start: str
) -> None:
    """Every way to make, open or raise somebody, with everybody and every role, one after the other."""
    key = {"name": "k", "kind": "project", "project": 0, "scopes": ["read"], "tier": "core"}
    rest = {"workspaces": None, "allow_destructive": False, "expires": None}
    steps = [
        Step(operation, 0, target, {**key, **rest}, role, workspace)
        for operation, roles, workspaces in (
            ("link", ROLES[:1], [0]),
            ("invite", ROLES, [0]),
            ("admin of a workspace", ROLES[:1], range(4)),
            ("password", ROLES[:1], [0]),
            ("switch", ROLES[:1], [0]),
            ("change a role", ROLES, [0]),
        )
        for role in roles
        for workspace in workspaces
        for target in range(7)
    ]
    await attack(at, http, start, steps)


async def test_the_model_would_notice(at: TestServer, http: httpx.AsyncClient) -> None:
    """What the operator gives is more than what the attacker had: the powers are not empty, and not all the same."""
    world = await new_world(at, list(rest_operations(at.services)), http, SystemClock().now())
    by_person = {name: await powers(world, await begin(world, name)) for name in ("owner", "admin", "member", "local")}
    assert by_person["admin"] < by_person["owner"]
    # Nobody else is the member, so that much the two differ by.
    at_most = {name: {each for each in held if each[0] != "act as"} for name, held in by_person.items()}
    assert at_most["member"] < at_most["local"] < at_most["admin"]
    member = world.held[2]
    await at.services.identity.set_role(world.home.owner, world.people["local"], "admin")
    assert await powers(world, member) == by_person["member"]
    small = {"name": "s", "kind": "project", "project": 0, "scopes": ["management"], "tier": "core"}
    rest = {"workspaces": "first", "allow_destructive": False, "expires": SOON}
    narrow = await powers(world, await begin(world, {**small, **rest}))
    for wider in (
        {"tier": "exec"},
        {"scopes": ["management", "read"]},
        {"workspaces": None},
        {"allow_destructive": True},
        {"expires": None},
    ):
        assert narrow < await powers(world, await begin(world, {**small, **rest, **wider})), wider
