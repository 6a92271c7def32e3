"""Owns one credential of each kind for a tenant: keys, people by role, strangers, and what no longer counts."""

from dataclasses import replace
from time import time

import jwt

from holdfast.core.ids import new_id
from holdfast.core.principal import SCOPES, TIERS, Principal, Role, Scope, Tier
from holdfast.features.identity import store as identity_store
from holdfast.features.identity.model import MintedKey, NewKey
from holdfast.features.identity.service import local_principal
from holdfast.features.workspaces import store as workspace_store
from holdfast.storage.database import Tx
from tests.support.access.oracle import Credential, State
from tests.support.server import TestServer

COOKIE = "holdfast_session"
JWT_SECRET = "known to the issuer and to this server"
LONG_AGO = 1_000


async def every_credential(server: TestServer) -> list[Credential]:
    """Every kind there is, for the server's first tenant and its first workspace."""
    start = server.start
    elsewhere = await server.services.workspaces.create(server.owner, start.project_id, "Elsewhere")
    other = await server.another_tenant("Another")
    here, away = frozenset({start.workspace_id}), frozenset({elsewhere.id})

    async def project_key(
        name: str,
        *,
        scopes: tuple[Scope, ...] = SCOPES,
        tier: Tier = "all",
        workspaces: frozenset[str] | None = None,
    ) -> Credential:
        minted = await server.mint(*scopes, name=name, tier=tier, workspace_ids=workspaces)
        return Credential(
            name,
            "key",
            bearer(minted),
            scopes=scopes,
            tier=tier,
            of_project=True,
            confined=workspaces is not None,
            sees_first=workspaces is None or start.workspace_id in workspaces,
        )

    async def organization_key(owner: Principal, name: str) -> Credential:
        new = NewKey(name=name, kind="organization", scopes=frozenset(SCOPES))
        minted = await server.services.keys.create(owner, new)
        return Credential(name, "key", bearer(minted), own_tenant=owner == server.owner)

    async def person(
        name: str, organization_id: str, role: Role, *, administers: bool = False, own_tenant: bool = True
    ) -> list[Credential]:
        headers = await signed_in(server, organization_id, name, role, administers=administers)
        made = Credential(name, "person", headers, role=role, administers_first=administers, own_tenant=own_tenant)
        bare = {"Cookie": headers["Cookie"]}
        return [
            made,
            replace(made, name=f"{name} without CSRF", headers=bare, state="no csrf"),
            replace(made, name=f"{name} by JWT", headers={"Authorization": f"Bearer {token(name)}"}),
        ]

    stranger = await server.mint(name="stranger", owner=other.owner, project_id=other.project_id)
    return [
        await organization_key(server.owner, "organization key"),
        await project_key("project key"),
        await project_key("confined to the first workspace", workspaces=here),
        await project_key("confined to another workspace", workspaces=away),
        await project_key("confined to none", workspaces=frozenset()),
        *[await project_key(f"scope {scope} alone", scopes=(scope,)) for scope in SCOPES],
        *[await project_key(f"tier {tier}", tier=tier) for tier in TIERS],
        await organization_key(other.owner, "another tenant's organization key"),
        Credential("another tenant's project key", "key", bearer(stranger), of_project=True, own_tenant=False),
        *await person("owner", start.organization_id, "owner"),
        *await person("admin", start.organization_id, "admin"),
        *await person("workspace admin", start.organization_id, "member", administers=True),
        *await person("member", start.organization_id, "member"),
        *await person("another tenant's owner", other.organization_id, "owner", own_tenant=False),
        await _spent(server, "revoked"),
        await _spent(server, "expired"),
        Credential("nobody", "nobody", state="absent"),
        Credential(
            "expired JWT", "nobody", {"Authorization": f"Bearer {token('owner', seconds=-60)}"}, state="expired"
        ),
        Credential("nonsense", "nobody", {"Authorization": "Bearer xero_nobody_0000"}, state="absent"),
        Credential("stale cookie", "nobody", {"Cookie": f"{COOKIE}=nothing", "X-CSRF-Token": "x"}, state="absent"),
    ]


def bearer(minted: MintedKey) -> dict[str, str]:
    """The header that shows a key."""
    return {"Authorization": f"Bearer {minted.secret}"}


def token(name: str, *, seconds: int = 3600) -> str:
    """A JWT of the configured issuer for a person that `signed_in` made."""
    claims = {"sub": f"idp|{name}", "email": address(name), "email_verified": True, "exp": int(time()) + seconds}
    return jwt.encode(claims, JWT_SECRET, "HS256")


def address(name: str) -> str:
    """The person's e-mail address."""
    return f"{name.lower().replace(' ', '.').replace(chr(39), '')}@example.com"


async def signed_in(
    server: TestServer, organization_id: str, name: str, role: Role, *, administers: bool = False
) -> dict[str, str]:
    """The headers of a signed-in person of that role; `administers` the first workspace by themselves."""
    services, user_id, now = server.services, new_id("usr"), 1_700_000_000_000

    def work(tx: Tx) -> None:
        identity_store.insert_user(tx, user_id, address(name), name, None, now)
        identity_store.set_role(tx, organization_id, user_id, role, now)
        if administers:
            workspace_store.add_admin(tx, server.start.workspace_id, user_id)

    await services.database.write(work)
    entered = await services.sign_in.by_link(await server.link(user_id, local_principal(organization_id)))
    return {"Cookie": f"{COOKIE}={entered.cookie}", "X-CSRF-Token": entered.session.csrf}


async def _spent(server: TestServer, state: State) -> Credential:
    """A key that worked once."""
    minted = await server.mint(name=f"{state} key")
    if state == "revoked":
        await server.services.keys.revoke(local_principal(server.start.organization_id), minted.key.id)
    else:
        await server.services.database.write(
            lambda tx: tx.execute(
                "UPDATE api_key SET expires_at = :then WHERE id = :id", {"then": LONG_AGO, "id": minted.key.id}
            )
        )
    return Credential(f"{state} key", "key", bearer(minted), state=state, of_project=True)
