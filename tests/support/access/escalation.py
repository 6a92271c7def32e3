"""Owns the model of an attacker: a first credential, the operations that make credentials, and what each one opens.

What a credential may do is read off the table of operations and the workspaces that it finds, never off its own fields.
"""

import io
import itertools
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from holdfast.core.access import at_least
from holdfast.core.clock import iso
from holdfast.core.errors import Forbidden, NotFound, Unauthenticated
from holdfast.core.operations import Operation
from holdfast.core.principal import ROLES, SCOPES, TIERS, Principal, Role
from holdfast.features.identity.model import NewKey
from holdfast.features.identity.sessions.sign_in import principal_of
from holdfast.storage.database import Tx
from tests.support.server import Tenant, TestServer

SOON, LATE = 3_600_000, 7_200_000
PASSWORD = "a password of the attacker's"
_numbers = itertools.count()
Powers = frozenset[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Held:
    """A credential in the attacker's hands: a key, or the cookie of a session."""

    secret: str
    csrf: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One operation: which credential is used on what; numbers choose among what there is then."""

    operation: str
    who: int
    target: int
    key: Mapping[str, Any]
    role: Role
    workspace: int


@dataclass
class World:
    """Two organizations with people and keys of every rank; the attacker has one credential in the first."""

    server: TestServer
    number: int
    operations: list[Operation]
    http: httpx.AsyncClient
    now: int
    home: Tenant
    away: Tenant
    projects: list[str]
    workspaces: list[str]
    people: dict[str, str] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    organizations: list[str] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    @property
    def targets(self) -> list[str]:
        return list(self.people.values())


async def new_world(server: TestServer, operations: list[Operation], http: httpx.AsyncClient, now: int) -> World:
    """A fresh pair of organizations, so that one example knows nothing of another."""
    services, number = server.services, next(_numbers)
    home, away = await server.another_tenant(f"Home {number}"), await server.another_tenant(f"Away {number}")
    beside = await services.workspaces.create(home.owner, home.project_id, "Beside")
    project = await services.identity.create_project(home.owner, "Second")
    there = await services.workspaces.create(home.owner, project.id, "There")
    world = World(
        server,
        number,
        operations,
        http,
        now,
        home,
        away,
        [home.project_id, project.id, away.project_id],
        [home.workspace_id, beside.id, there.id, away.workspace_id],
    )
    world.organizations += [home.organization_id, away.organization_id]
    roles: dict[str, Role] = {
        "owner": "owner",
        "admin": "admin",
        "other": "admin",
        "member": "member",
        "local": "member",
    }
    for name, role in roles.items():
        user = await services.identity.create_user(
            home.owner, email=f"{name}-{number}@example.com", name=name, role=role
        )
        world.people[name] = user.id
    await services.workspaces.set_admin(home.owner, home.workspace_id, world.people["local"], admin=True)
    both = f"both-{number}@example.com"
    world.people["both"] = (await services.identity.create_user(away.owner, email=both, name="B", role="owner")).id
    await services.identity.create_user(home.owner, email=both, name="B")
    victim = f"victim-{number}@example.com"
    world.people["victim"] = (await services.identity.create_user(away.owner, email=victim, name="V", role="owner")).id
    everything: dict[str, Any] = {"scopes": frozenset(SCOPES), "allow_destructive": True}
    for new in (
        NewKey(name="root", kind="organization", **everything),
        NewKey(name="wide", project_id=home.project_id, **everything),
        NewKey(name="wide", project_id=project.id, **everything),
        NewKey(name="small", project_id=home.project_id, tier="core", scopes=frozenset({"read"})),
        NewKey(name="intel", project_id=home.project_id, tier="intel", scopes=frozenset({"management"})),
    ):
        world.keys.append((await services.keys.create(home.owner, new)).key.id)
    return world


async def begin(world: World, start: str | Mapping[str, Any]) -> Held:
    """The attacker's first credential: a person by name, or a key by what it may do."""
    services = world.server.services
    if isinstance(start, str):
        link = await services.sign_in.new_link(world.home.owner, world.people[start])
        signed_in = await services.sign_in.by_link(link.secret)
        held = Held(signed_in.cookie, signed_in.session.csrf)
    else:
        wanted = _new_key(world, start)
        minted = await services.keys.create(world.home.owner, wanted)
        world.keys.append(minted.key.id)
        held = Held(minted.secret)
    world.held.append(held)
    return held


async def principal(world: World, held: Held) -> Principal | None:
    """Who the server takes a credential for now; None once it stopped working."""
    try:
        if held.csrf is None:
            return await world.server.services.keys.authenticate(held.secret)
        return principal_of(await world.server.services.sign_in.session(held.secret))
    except Unauthenticated:
        return None


async def powers(world: World, held: Held) -> Powers:
    """Everything that a credential opens in the two organizations, from what the server itself lets through."""
    who = await principal(world, held)
    if who is None:
        return frozenset()
    services = world.server.services

    def visible(tx: Tx) -> tuple[list[str], list[str]]:
        seen, administered = [], []
        for workspace in world.workspaces:
            try:
                services.workspaces.check(tx, who, workspace)
                seen.append(workspace)
                services.workspaces.administered(tx, who, workspace)
                administered.append(workspace)
            except (NotFound, Forbidden):
                continue
        return seen, administered

    seen, administered = await services.database.read(visible)
    projects = [each for each in world.projects if await _sees(world, who, each)]
    known = who.organization_id in (world.home.organization_id, world.away.organization_id)
    found: set[tuple[str, ...]] = set()
    for operation in world.operations:
        access = operation.access
        if access.missing(who) is not None:
            continue
        within = {
            "workspace": administered if access.role != "member" else seen,
            "project": projects,
            "organization": [who.organization_id] if known else [],
            "self": [],
        }[access.level]
        found |= {(f"{operation.method} {operation.path}", target) for target in within}
    tiers = [each for each in TIERS if who.is_person or each in _held_tiers(who)]
    found |= {("tier", tier, workspace) for tier in tiers for workspace in seen}
    if who.allow_destructive:
        found |= {("destructive", workspace) for workspace in seen}
    if who.is_person and known:
        found |= {("role", who.organization_id, role) for role in ROLES if at_least(who.role, role)}
        found |= {("act as", person) for person in await _opens(world, who)}
    if who.expires_at is None or who.expires_at > world.now + SOON:
        found.add(("lasts",))
    return frozenset(found)


async def given(world: World, first: Held) -> Powers:
    """What the attacker was given: a person has an account, and with it all the organizations that they belong to."""
    found = await powers(world, first)
    who = await principal(world, first)
    if who is None or not who.is_person:
        return found
    services = world.server.services
    for organization, _ in await services.identity.organizations_of(who.actor):
        await services.sign_in.switch(who, first.secret, organization.id)
        found |= await powers(world, first)
    await services.sign_in.switch(who, first.secret, world.home.organization_id)
    return found


async def _opens(world: World, who: Principal) -> set[str]:
    """As whom somebody may sign in: themselves, and as an admin those of the organization alone and not above."""
    services = world.server.services
    found = {who.actor} & set(world.people.values())
    if at_least(who.role, "admin"):
        for person in world.people.values():
            belongs = await services.identity.organizations_of(person)
            if [organization.id for organization, _ in belongs] == [who.organization_id]:
                found |= {person} if at_least(who.role, belongs[0][1]) else set()
    return found


def _held_tiers(who: Principal) -> set[str]:
    return set(TIERS) if who.tier == "all" else {"core", who.tier}


async def _sees(world: World, who: Principal, project_id: str) -> bool:
    try:
        await world.server.services.identity.project(who, project_id)
        return True
    except NotFound:
        return False


def _new_key(world: World, fields: Mapping[str, Any]) -> NewKey:
    organization = fields["kind"] == "organization"
    places = {None: None, "first": [0], "beside": [1], "both": [0, 1], "none": []}[fields["workspaces"]]
    return NewKey(
        name=str(fields["name"]),
        kind=fields["kind"],
        project_id=None if organization else world.projects[fields["project"]],
        scopes=frozenset(fields["scopes"]),
        tier=fields["tier"],
        workspace_ids=None if organization or places is None else frozenset(world.workspaces[each] for each in places),
        allow_destructive=fields["allow_destructive"],
        expires_at=None if fields["expires"] is None else world.now + int(fields["expires"]),
    )


async def take(world: World, step: Step) -> None:
    """Carry one operation out over HTTP, and pick up every credential that comes of it."""
    held = world.held[step.who % len(world.held)]
    act = _ACTS[step.operation]
    method, path, body, gather = act(world, step)
    answer = await send(world, held, method, path, body)
    world.done.append(f"{step.operation} {path} {json.dumps(body)} -> {answer.status_code}")
    if answer.is_success:
        await gather(world, answer)


async def send(world: World, held: Held, method: str, path: str, body: Any) -> httpx.Response:
    """One request with a credential; a page of the attacker's own knows its own token."""
    if held.csrf is None:
        headers = {"Authorization": f"Bearer {held.secret}"}
    else:
        headers = {"Cookie": f"holdfast_session={held.secret}", "X-CSRF-Token": held.csrf}
    return await world.http.request(method, path, json=body, headers=headers)


Gather = Callable[[World, httpx.Response], Any]
Act = Callable[[World, Step], tuple[str, str, Any, Gather]]


async def _nothing(world: World, answer: httpx.Response) -> None:
    return None


async def _key(world: World, answer: httpx.Response) -> None:
    world.keys.append(answer.json()["id"])
    world.held.append(Held(answer.json()["key"]))


async def _bundle(world: World, answer: httpx.Response) -> None:
    with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
        (server,) = json.loads(packed.read(".cursor/mcp.json"))["mcpServers"].values()
    world.held.append(Held(server["headers"]["Authorization"].removeprefix("Bearer ")))


async def _by_link(world: World, answer: httpx.Response) -> None:
    """Use whatever link was handed out, as if nobody else were there."""
    link = urlsplit(answer.json()["url"])
    ((name, (secret,)),) = parse_qs(link.query).items()
    if name == "invitation":
        world.tokens.append(secret)
    came = await world.http.post(link.path, data={name: secret, "name": "Impostor"})
    await _entered(world, came)


async def _entered(world: World, answer: httpx.Response) -> None:
    cookie = answer.cookies.get("holdfast_session")
    world.http.cookies.clear()
    if answer.status_code == 303 and cookie:
        session = await world.server.services.sign_in.session(cookie)
        world.held.append(Held(cookie, session.csrf))


async def _made(world: World, answer: httpx.Response) -> None:
    world.organizations.append(answer.json()["id"])


def _key_body(world: World, step: Step) -> dict[str, Any]:
    new = _new_key(world, step.key)
    return {
        "name": new.name,
        "kind": new.kind,
        "project_id": new.project_id,
        "scopes": sorted(new.scopes),
        "tier": new.tier,
        "workspace_ids": None if new.workspace_ids is None else sorted(new.workspace_ids),
        "allow_destructive": new.allow_destructive,
        "expires_at": None if new.expires_at is None else iso(new.expires_at),
    }


def _chosen(options: list[str], number: int) -> str:
    return options[number % len(options)]


def _space(world: World, step: Step) -> str:
    return f"/api/workspaces/{_chosen(world.workspaces, step.workspace)}"


def _person(world: World, step: Step) -> str:
    return _chosen(world.targets, step.target)


def _address(world: World, step: Step) -> str:
    """Somebody new, or somebody whose address the attacker knows."""
    name = _chosen(["new", "victim", "both", "member"], step.target)
    return (
        f"{name}-{len(world.done)}-{world.number}@example.com"
        if name == "new"
        else f"{name}-{world.number}@example.com"
    )


def _signs_in(world: World, step: Step) -> Gather:
    async def gather(_: World, answer: httpx.Response) -> None:
        name = next(name for name, id in world.people.items() if id == _person(world, step))
        world.opened.append(f"{name}-{world.number}@example.com")
        await sign_in_again(world)

    return gather


async def sign_in_again(world: World) -> None:
    """Open every account whose password the attacker set: what it may do may have changed since."""
    for email in world.opened:
        await _entered(world, await world.http.post("/sign-in", data={"email": email, "password": PASSWORD}))


_ACTS: dict[str, Act] = {
    "make a key": lambda world, step: ("POST", "/api/keys", _key_body(world, step), _key),
    "rotate by name": lambda world, step: ("POST", "/api/keys", {**_key_body(world, step), "rotate": True}, _key),
    "rotate": lambda world, step: ("POST", f"/api/keys/{_chosen(world.keys, step.target)}/rotate", None, _key),
    "change a key": lambda world, step: (
        "PATCH",
        f"/api/keys/{_chosen(world.keys, step.target)}",
        {name: _key_body(world, step)[name] for name in ("tier", "scopes", "allow_destructive")},
        _nothing,
    ),
    "revoke": lambda world, step: ("DELETE", f"/api/keys/{_chosen(world.keys, step.target)}", None, _nothing),
    "bundle": lambda world, step: (
        "POST",
        f"{_space(world, step)}/client-bundles/cursor",
        {"tier": step.key["tier"], "surface": "keystone" if step.target % 2 else "xerotier"},
        _bundle,
    ),
    "invite": lambda world, step: (
        "POST",
        "/api/users",
        {"email": _address(world, step), "role": step.role},
        _by_link,
    ),
    "accept": lambda world, step: (
        "POST",
        "/api/me/invitations/accept",
        {"token": _chosen(world.tokens or ["invented"], step.target)},
        _nothing,
    ),
    "change a role": lambda world, step: (
        "PATCH",
        f"/api/users/{_person(world, step)}",
        {"role": step.role},
        _nothing,
    ),
    "remove": lambda world, step: ("DELETE", f"/api/users/{_person(world, step)}", None, _nothing),
    "link": lambda world, step: ("POST", f"/api/users/{_person(world, step)}/sign-in-link", None, _by_link),
    "password": lambda world, step: (
        "PUT",
        f"/api/users/{_person(world, step)}/password",
        {"password": PASSWORD},
        _signs_in(world, step),
    ),
    "admin of a workspace": lambda world, step: (
        "PUT",
        f"{_space(world, step)}/admins/{_person(world, step)}",
        None,
        _nothing,
    ),
    "make an organization": lambda world, step: ("POST", "/api/organizations", {"name": "Mine"}, _made),
    "switch": lambda world, step: (
        "PUT",
        "/api/session",
        {"organization_id": _chosen(world.organizations, step.target)},
        _nothing,
    ),
    "make a project": lambda world, step: ("POST", "/api/projects", {"name": "New"}, _nothing),
    "make a workspace": lambda world, step: (
        "POST",
        "/api/workspaces",
        {"name": "New", "project_id": _chosen(world.projects, step.target)},
        _nothing,
    ),
}
OPERATIONS = tuple(_ACTS)
