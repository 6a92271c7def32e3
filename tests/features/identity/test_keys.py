"""API keys: shown once, checked in one way, narrowed never widened, rotated by name."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from holdfast.core.principal import SCOPES
from holdfast.features.identity.keys.api_keys import digest
from holdfast.features.identity.model import NewKey
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.world import World, new_world


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> AsyncIterator[World]:
    yield await new_world(database, clock)


def project_key(world: World, name: str = "agent", **fields: object) -> NewKey:
    return NewKey(name=name, project_id=world.start.project_id, **fields)  # type: ignore[arg-type]


async def test_the_first_start_makes_a_key_that_works_and_the_second_none(world: World) -> None:
    from tests.support.services import first_start

    assert world.start.api_key is not None
    principal = await world.services.keys.authenticate(world.start.api_key)
    assert principal.project_id == world.start.project_id
    again = await first_start(world.services)
    assert again.api_key is None
    assert (again.project_id, again.workspace_id) == (world.start.project_id, world.start.workspace_id)


async def test_both_formats_are_keys_of_one_table(world: World) -> None:
    project = await world.services.keys.create(world.owner, project_key(world))
    organization = await world.services.keys.create(world.owner, NewKey(name="org", kind="organization"))
    assert project.secret.startswith(f"xero_{world.start.project_id.removeprefix('proj_')}_")
    assert organization.secret.startswith("ks_live_") and len(organization.secret) == len("ks_live_") + 64
    assert (await world.services.keys.authenticate(organization.secret)).project_id is None
    assert (await world.services.keys.authenticate(project.secret)).actor == project.key.id


async def test_only_a_digest_and_a_prefix_are_kept(world: World) -> None:
    minted = await world.services.keys.create(world.owner, project_key(world))
    rows = await world.services.database.read(lambda tx: tx.all("SELECT * FROM api_key"))
    kept = [dict(row) for row in rows]
    assert minted.secret not in str(kept)
    assert digest(minted.secret) in [bytes(row["hash"]) for row in kept]
    assert minted.secret not in repr(minted)


@pytest.mark.parametrize(
    "wrong",
    ["", "xero_", "ks_live_" + "0" * 64, "xero_" + "0" * 32 + "_" + "A" * 43, "x" * 100_000, "ks_live_\0", "é" * 72],
)
async def test_every_wrong_key_is_refused_alike(world: World, wrong: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        await world.services.keys.authenticate(wrong)
    assert refused.value.message == Unauthenticated().message


async def test_expired_and_revoked_keys_stop_working(world: World) -> None:
    soon = await world.services.keys.create(world.owner, project_key(world, expires_at=world.clock.now() + 1000))
    revoked = await world.services.keys.create(world.owner, project_key(world, "other"))
    await world.services.keys.authenticate(soon.secret)
    world.clock.advance(seconds=2)
    await world.services.keys.revoke(world.owner, revoked.key.id)
    for secret in (soon.secret, revoked.secret):
        with pytest.raises(Unauthenticated):
            await world.services.keys.authenticate(secret)


async def test_rotation_leaves_one_active_key_of_the_name(world: World) -> None:
    first = await world.services.keys.create(world.owner, project_key(world))
    second = await world.services.keys.create(world.owner, project_key(world))
    other = await world.services.keys.create(world.owner, project_key(world, "untouched"))
    fresh = await world.services.keys.rotate_in_place(world.owner, first.key.id)
    for gone in (first, second):
        with pytest.raises(Unauthenticated):
            await world.services.keys.authenticate(gone.secret)
    await world.services.keys.authenticate(other.secret)
    assert (await world.services.keys.authenticate(fresh.secret)).tier == first.key.tier
    with pytest.raises(Conflict):
        await world.services.keys.rotate_in_place(world.owner, first.key.id)


async def test_concurrent_rotations_leave_exactly_one_active(world: World) -> None:
    await asyncio.gather(*(world.services.keys.rotate(world.owner, project_key(world, "raced")) for _ in range(12)))
    page = await world.services.keys.list(world.owner, limit=200)
    assert sum(key.name == "raced" and key.revoked_at is None for key in page.items) == 1


@pytest.mark.slow
async def test_two_processes_racing_to_rotate_leave_exactly_one_active(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "holdfast",
        "keys",
        "rotate",
        "--name",
        "raced",
        "--json",
        "--data-dir",
        str(tmp_path),
    ]
    subprocess.run(
        [sys.executable, "-m", "holdfast", "projects", "create", "--name", "p", "--data-dir", str(tmp_path)], check=True
    )
    racers = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [racer.wait(timeout=60) for racer in racers] == [0, 0, 0]
    from holdfast.core.settings import Settings
    from tests.support.services import open_local

    async with open_local(Settings(data_dir=tmp_path)) as (services, owner):
        page = await services.keys.list(owner, limit=200)
    assert sum(key.name == "raced" and key.revoked_at is None for key in page.items) == 1


async def test_a_key_cannot_make_a_key_that_may_do_more(world: World) -> None:
    small = await world.services.keys.create(
        world.owner,
        project_key(world, scopes=frozenset({"management"}), tier="core"),
    )
    principal = await world.services.keys.authenticate(small.secret)
    for wider in (
        project_key(world, scopes=frozenset(SCOPES), tier="core"),
        project_key(world, scopes=frozenset({"management"}), tier="all"),
        project_key(world, scopes=frozenset({"management"}), tier="core", allow_destructive=True),
    ):
        with pytest.raises(Forbidden, match="more than you"):
            await world.services.keys.create(principal, wider)
    with pytest.raises(Forbidden, match="project_id"):
        await world.services.keys.create(
            principal, NewKey(name="org", kind="organization", tier="core", scopes=frozenset({"management"}))
        )


async def test_a_key_confined_to_workspaces_stays_in_them(world: World) -> None:
    other = await world.services.workspaces.create(world.owner, world.start.project_id, "Other")
    confined = await world.services.keys.create(
        world.owner, project_key(world, scopes=frozenset(SCOPES), workspace_ids=frozenset({other.id}))
    )
    principal = await world.services.keys.authenticate(confined.secret)
    assert (await world.services.workspaces.get(principal, other.uuid)).id == other.id
    with pytest.raises(NotFound):
        await world.services.workspaces.get(principal, world.start.workspace_id)
    assert [each.id for each in (await world.services.workspaces.list(principal)).items] == [other.id]
    with pytest.raises(Forbidden):
        await world.services.workspaces.create(principal, world.start.project_id, "Third")
    with pytest.raises(Forbidden, match="workspace_ids"):
        await world.services.keys.create(principal, project_key(world, scopes=frozenset({"read"})))


async def test_a_key_without_the_scope_is_told_which(world: World) -> None:
    reader = await world.services.keys.create(world.owner, project_key(world, scopes=frozenset({"read"})))
    principal = await world.services.keys.authenticate(reader.secret)
    with pytest.raises(Forbidden, match="'management'"):
        await world.services.keys.list(principal)


async def test_changing_a_key_keeps_its_secret(world: World) -> None:
    minted = await world.services.keys.create(world.owner, project_key(world))
    await world.services.keys.update(world.owner, minted.key.id, tier="core", scopes=frozenset({"read"}))
    principal = await world.services.keys.authenticate(minted.secret)
    assert (principal.tier, principal.scopes) == ("core", frozenset({"read"}))


async def test_last_use_is_written_down_in_batches(world: World) -> None:
    minted = await world.services.keys.create(world.owner, project_key(world))
    await world.services.keys.authenticate(minted.secret)
    await world.services.keys.flush_last_used()
    assert (await world.services.keys.get(world.owner, minted.key.id)).last_used_at == world.clock.now()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": " "}, "name"),
        ({"scopes": frozenset()}, "scopes"),
        ({"scopes": frozenset({"root"})}, "scopes"),
        ({"tier": "huge"}, "tier"),
        ({"expires_at": 5}, "expires_at"),
    ],
)
async def test_a_wrong_field_is_named(world: World, change: dict[str, object], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        await world.services.keys.create(world.owner, replace(project_key(world), **change))  # type: ignore[arg-type]
    assert [wrong.field for wrong in refused.value.fields] == [field]


async def test_a_key_that_expires_makes_none_that_outlives_it(world: World) -> None:
    ends = world.clock.now() + 60_000
    short = await world.services.keys.create(
        world.owner, project_key(world, "short", scopes=frozenset(SCOPES), expires_at=ends)
    )
    principal = await world.services.keys.authenticate(short.secret)
    for expires_at in (None, ends + 1):
        with pytest.raises(Forbidden, match="outlive"):
            await world.services.keys.create(principal, project_key(world, "long", expires_at=expires_at))
    await world.services.keys.create(principal, project_key(world, "as long", expires_at=ends))


@pytest.mark.parametrize(
    "more",
    [
        {"tier": "all"},
        {"tier": "exec"},
        {"scopes": frozenset(SCOPES)},
        {"allow_destructive": True},
    ],
)
async def test_a_key_neither_rotates_nor_changes_nor_stops_one_that_may_do_more(
    world: World, more: dict[str, Any]
) -> None:
    keys = world.services.keys
    small = await keys.create(
        world.owner, project_key(world, "small", scopes=frozenset({"management", "read"}), tier="intel")
    )
    principal = await keys.authenticate(small.secret)
    as_small: dict[str, Any] = {"scopes": frozenset({"management", "read"}), "tier": "intel"}
    wide = await keys.create(world.owner, project_key(world, "wide", **{**as_small, **more}))
    for attempt in (
        keys.rotate_in_place(principal, wide.key.id),
        keys.rotate(principal, project_key(world, "wide", **as_small)),
        keys.update(principal, wide.key.id, tier="core", scopes=frozenset({"read"}), allow_destructive=False),
        keys.revoke(principal, wide.key.id),
    ):
        with pytest.raises(Forbidden, match="more than you"):
            await attempt
    assert (await keys.get(world.owner, wide.key.id)) == wide.key
    await keys.authenticate(wide.secret)


async def test_a_key_rotates_and_stops_itself(world: World) -> None:
    keys = world.services.keys
    own = await keys.create(world.owner, project_key(world, "own", scopes=frozenset({"management"}), tier="core"))
    principal = await keys.authenticate(own.secret)
    fresh = await keys.rotate_in_place(principal, own.key.id)
    with pytest.raises(Unauthenticated):
        await keys.authenticate(own.secret)
    again = await keys.authenticate(fresh.secret)
    assert (await keys.revoke(again, fresh.key.id)).revoked_at is not None


async def test_a_key_that_was_narrowed_or_stopped_meanwhile_makes_nothing_more(world: World) -> None:
    keys = world.services.keys
    minted = await keys.create(world.owner, project_key(world, "caught", scopes=frozenset(SCOPES)))
    principal = await keys.authenticate(minted.secret)
    await keys.update(world.owner, minted.key.id, tier="core")
    with pytest.raises(Forbidden, match="tier"):
        await keys.create(principal, project_key(world, "late", tier="all"))
    await keys.revoke(world.owner, minted.key.id)
    with pytest.raises(Unauthenticated):
        await keys.create(principal, project_key(world, "late", tier="core"))
