"""Organizations, people, projects, workspaces and sign-in: the rules, on both stores."""

from collections.abc import AsyncIterator

import pytest

from holdfast.core.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from holdfast.core.principal import Principal, Role
from holdfast.features.identity.service import local_principal
from holdfast.features.identity.sessions.sign_in import SESSION_MILLIS, principal_of
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.world import World, new_world


@pytest.fixture
async def world(database: Database, clock: MovableClock) -> AsyncIterator[World]:
    yield await new_world(database, clock)


async def person(world: World, email: str, role: Role) -> Principal:
    """A member who signed in by link."""
    user = await world.services.identity.create_user(world.owner, email=email, name="Somebody", role=role)
    signed_in = await world.services.sign_in.by_link(await world.link(user.id))
    return principal_of(signed_in.session)


async def test_a_link_signs_in_once(world: World) -> None:
    secret = await world.link(world.start.owner_id)
    signed_in = await world.services.sign_in.by_link(secret)
    assert (await world.services.sign_in.session(signed_in.cookie)).role == "owner"
    with pytest.raises(Unauthenticated):
        await world.services.sign_in.by_link(secret)


async def test_a_link_expires(world: World) -> None:
    secret = await world.link(world.start.owner_id)
    world.clock.advance(seconds=3601)
    with pytest.raises(Unauthenticated):
        await world.services.sign_in.by_link(secret)


async def test_a_password_signs_in_and_a_new_one_ends_old_sessions(world: World) -> None:
    ada = await world.services.identity.create_user(
        world.owner, email="Ada@Example.com ", name="Ada", password="correct horse battery"
    )
    assert ada.email == "ada@example.com"
    signed_in = await world.services.sign_in.by_password("ADA@example.com", "correct horse battery")
    for email, password in (("ada@example.com", "wrong"), ("nobody@example.com", "wrong"), ("", "")):
        with pytest.raises(Unauthenticated):
            await world.services.sign_in.by_password(email, password)
    await world.services.identity.set_password(world.owner, ada.id, "another long password")
    with pytest.raises(Unauthenticated):
        await world.services.sign_in.session(signed_in.cookie)
    await world.services.sign_in.by_password("ada@example.com", "another long password")


async def test_sessions_end_by_time_sign_out_and_removal(world: World) -> None:
    by_time = await world.services.sign_in.by_link(await world.link(world.start.owner_id))
    world.clock.advance(seconds=SESSION_MILLIS / 1000 + 1)
    with pytest.raises(Unauthenticated):
        await world.services.sign_in.session(by_time.cookie)
    left = await world.services.sign_in.by_link(await world.link(world.start.owner_id))
    await world.services.sign_in.sign_out(left.cookie)
    with pytest.raises(Unauthenticated):
        await world.services.sign_in.session(left.cookie)
    bob = await world.services.identity.create_user(world.owner, email="bob@example.com", name="Bob")
    removed = await world.services.sign_in.by_link(await world.link(bob.id))
    await world.services.identity.remove_user(world.owner, bob.id)
    with pytest.raises(Unauthenticated):
        await world.services.sign_in.session(removed.cookie)


async def test_an_organization_keeps_an_owner(world: World) -> None:
    with pytest.raises(Conflict, match="needs an owner"):
        await world.services.identity.remove_user(world.owner, world.start.owner_id)
    with pytest.raises(Conflict, match="needs an owner"):
        await world.services.identity.set_role(world.owner, world.start.owner_id, "member")
    second = await world.services.identity.create_user(world.owner, email="b@example.com", name="B", role="owner")
    await world.services.identity.remove_user(world.owner, world.start.owner_id)
    assert [user.id for user in (await world.services.identity.users(world.owner)).items] == [second.id]


async def test_roles_say_who_manages(world: World) -> None:
    member = await person(world, "member@example.com", "member")
    admin = await person(world, "admin@example.com", "admin")
    with pytest.raises(Forbidden, match="owner or admin"):
        await world.services.identity.create_project(member, "Nope")
    with pytest.raises(Forbidden):
        await world.services.keys.list(member)
    await world.services.identity.create_project(admin, "Yes")
    with pytest.raises(Forbidden, match="role owner; yours is admin"):
        await world.services.invitations.invite(admin, email="x@example.com", role="owner")
    with pytest.raises(Forbidden, match="operator"):
        await world.services.identity.create_user(admin, email="x@example.com", name="X")
    with pytest.raises(Forbidden):
        await world.services.identity.set_password(admin, world.start.owner_id, "a long enough one")


async def test_a_workspace_has_admins_of_its_own(world: World) -> None:
    member = await person(world, "member@example.com", "member")
    with pytest.raises(Forbidden):
        await world.services.workspaces.rename(member, world.start.workspace_id, "Mine")
    await world.services.workspaces.set_admin(world.owner, world.start.workspace_id, member.actor, admin=True)
    assert (await world.services.workspaces.rename(member, world.start.workspace_id, "Mine")).name == "Mine"
    assert list(await world.services.workspaces.admins(world.owner, world.start.workspace_id)) == [member.actor]
    with pytest.raises(NotFound):
        await world.services.workspaces.set_admin(world.owner, world.start.workspace_id, "usr_nobody", admin=True)


async def test_names_and_slugs(world: World) -> None:
    first = await world.services.identity.create_project(world.owner, "Über  Projekt")
    second = await world.services.identity.create_project(world.owner, "uber projekt")
    assert (first.name, first.slug, second.slug) == ("Über Projekt", "uber-projekt", "uber-projekt-2")
    spaces = [await world.services.workspaces.create(world.owner, first.id, "漢字") for _ in range(2)]
    assert [space.slug for space in spaces] == ["workspace", "workspace-2"]
    for wrong in ("", " \n", "x" * 121):
        with pytest.raises(Invalid):
            await world.services.identity.create_project(world.owner, wrong)


async def test_deleting_a_project_takes_its_keys_and_workspaces(world: World) -> None:
    assert world.start.api_key is not None
    await world.services.identity.delete_project(world.owner, world.start.project_id)
    with pytest.raises(Unauthenticated):
        await world.services.keys.authenticate(world.start.api_key)
    with pytest.raises(NotFound):
        await world.services.workspaces.get(world.owner, world.start.workspace_id)


async def test_another_organization_sees_nothing(world: World) -> None:
    other = local_principal((await world.services.identity.create_organization(world.owner, "Other")).id)
    bob = await world.services.identity.create_user(world.owner, email="bob@example.com", name="Bob")
    for attempt in (
        world.services.identity.project(other, world.start.project_id),
        world.services.identity.user(other, bob.id),
        world.services.identity.organization(other, world.start.organization_id),
        world.services.workspaces.get(other, world.start.workspace_id),
        world.services.workspaces.create(other, world.start.project_id, "Mine"),
        world.services.workspaces.delete(other, world.start.workspace_id),
        world.services.identity.delete_project(other, world.start.project_id),
        world.services.identity.remove_user(other, bob.id),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert (await world.services.identity.projects(other)).items == []


async def test_every_change_is_in_the_audit_log(world: World) -> None:
    project = await world.services.identity.create_project(world.owner, "Audited")
    workspace = await world.services.workspaces.create(world.owner, project.id, "Audited")
    await world.services.workspaces.delete(world.owner, workspace.id)
    found = await world.services.audit.list(world.owner, limit=200)
    recorded = [(event.action, event.resource_id) for event in found.items]
    for expected in (
        ("project.create", project.id),
        ("workspace.create", workspace.id),
        ("workspace.delete", workspace.id),
    ):
        assert expected in recorded
