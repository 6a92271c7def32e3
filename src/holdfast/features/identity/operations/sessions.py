"""Owns `/api/session`: what a signed-in page needs to know about the session that its cookie opens."""

from holdfast.core.access import Access
from holdfast.core.errors import Unauthenticated
from holdfast.core.model import Answer, Model, Time
from holdfast.core.operations import Call, Operations
from holdfast.core.principal import SCOPES, Principal, Role
from holdfast.features.identity.service import Identity
from holdfast.features.identity.sessions.sign_in import SignIn
from holdfast.features.identity.sessions.store import WebSession

_PATH = "/api/session"

api = Operations("identity")


class SessionUserAnswer(Answer):
    id: str
    email: str
    name: str


class SessionOrganizationAnswer(Answer):
    id: str
    name: str
    role: Role


class SessionAnswer(Answer):
    user: SessionUserAnswer
    organization: SessionOrganizationAnswer
    organizations: list[SessionOrganizationAnswer]
    """Every organization that the person belongs to."""
    role: Role
    csrf_token: str
    """Goes into the header `X-CSRF-Token` of every request that changes something."""
    expires_at: Time


class SessionBody(Model):
    organization_id: str


@api.get(
    _PATH,
    Access("self", SCOPES, people_only=True),
    "The signed-in person's session, with the token that requests from pages need",
    # The token lets a page act for the person.
    no_store=True,
)
async def get(identity: Identity, sign_in: SignIn, call: Call) -> SessionAnswer:
    return await _shown(identity, await sign_in.session(_cookie(call)))


@api.put(_PATH, Access("self", "management", people_only=True), "Be in another of one's organizations", no_store=True)
async def switch(
    identity: Identity, sign_in: SignIn, principal: Principal, body: SessionBody, call: Call
) -> SessionAnswer:
    return await _shown(identity, await sign_in.switch(principal, _cookie(call), body.organization_id))


def _cookie(call: Call) -> str:
    cookie = call.session()
    if cookie is None:
        raise Unauthenticated
    return cookie


async def _shown(identity: Identity, session: WebSession) -> SessionAnswer:
    belongs = [
        SessionOrganizationAnswer.of(organization, role=role)
        for organization, role in await identity.organizations_of(session.user_id)
    ]
    (present,) = (each for each in belongs if each.id == session.organization_id)
    return SessionAnswer.of(
        session,
        user=SessionUserAnswer(id=session.user_id, email=session.email, name=session.name),
        organization=present,
        organizations=belongs,
        csrf_token=session.csrf,
    )
