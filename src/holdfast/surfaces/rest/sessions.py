"""Owns `/api/session`: what a signed-in page needs to know about the session that its cookie opens."""

from holdfast.core.access import Access
from holdfast.core.clock import iso
from holdfast.core.errors import Unauthenticated
from holdfast.core.model import Model
from holdfast.core.operations import Call, Operation
from holdfast.core.principal import SCOPES, Role
from holdfast.features.identity.service import Identity
from holdfast.features.identity.sessions.sign_in import SignIn
from holdfast.features.identity.sessions.store import WebSession


class SessionUser(Model):
    id: str
    email: str
    name: str


class SessionOrganization(Model):
    id: str
    name: str
    role: Role


class SessionView(Model):
    user: SessionUser
    organization: SessionOrganization
    organizations: list[SessionOrganization]
    """Every organization that the person belongs to."""
    role: Role
    csrf_token: str
    """Goes into the header `X-CSRF-Token` of every request that changes something."""
    expires_at: str


class SwitchedTo(Model):
    organization_id: str


def operations(identity: Identity, sign_in: SignIn) -> list[Operation]:
    """Everything served here."""

    async def get(call: Call) -> SessionView:
        return await _answer(await sign_in.session(_cookie(call)))

    async def switch(call: Call) -> SessionView:
        return await _answer(await sign_in.switch(call.principal, _cookie(call), call.body.organization_id))

    async def _answer(session: WebSession) -> SessionView:
        belongs = [
            SessionOrganization(id=organization.id, name=organization.name, role=role)
            for organization, role in await identity.organizations_of(session.user_id)
        ]
        (present,) = (each for each in belongs if each.id == session.organization_id)
        return SessionView(
            user=SessionUser(id=session.user_id, email=session.email, name=session.name),
            organization=present,
            organizations=belongs,
            role=session.role,
            csrf_token=session.csrf,
            expires_at=iso(session.expires_at),
        )

    path = "/api/session"
    return [
        Operation(
            method="GET",
            path=path,
            handler=get,
            tag="identity",
            access=Access("self", SCOPES, people_only=True),
            answer=SessionView,
            no_store=True,
            summary="The signed-in person's session, with the token that requests from pages need",
        ),
        Operation(
            method="PUT",
            path=path,
            handler=switch,
            tag="identity",
            access=Access("self", "management", people_only=True),
            body=SwitchedTo,
            answer=SessionView,
            no_store=True,
            summary="Be in another of one's organizations",
        ),
    ]


def _cookie(call: Call) -> str:
    cookie = call.session()
    if cookie is None:
        raise Unauthenticated
    return cookie
