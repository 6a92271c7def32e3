"""Owns how people, projects and keys are built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.engines.events.bus import EventBus
from holdfast.features.audit.service import Audit
from holdfast.features.identity.idempotency import IdempotentRequests
from holdfast.features.identity.keys import store as key_store
from holdfast.features.identity.keys.api_keys import Keys, WorkspaceIds
from holdfast.features.identity.keys.tokens import Tokens
from holdfast.features.identity.people.invitations import Invitations
from holdfast.features.identity.service import Identity
from holdfast.features.identity.sessions.own_password import OwnPassword
from holdfast.features.identity.sessions.sign_in import SignIn
from holdfast.features.usage.limiter import Limiter
from holdfast.features.usage.service import Spenders
from holdfast.registry.feature import Building
from holdfast.storage.database import Database

build = Building()


@build
def own_password(parts: Parts) -> OwnPassword:
    return OwnPassword(parts[Database], parts[Limiter], parts[Settings].sign_ins_per_minute)


@build
def identity(parts: Parts) -> Identity:
    return Identity(
        parts[Database],
        parts[Audit],
        parts[Clock],
        parts[OwnPassword],
        people_make_organizations=parts[Settings].allow_organizations,
    )


@build
def sign_in(parts: Parts) -> SignIn:
    return SignIn(parts[Database], parts[Audit], parts[Clock])


@build
def keys(parts: Parts) -> Keys:
    return Keys(parts[Database], parts[Audit], parts[Clock], parts[WorkspaceIds], parts[EventBus])


@build
def invitations(parts: Parts) -> Invitations:
    return Invitations(parts[Database], parts[Audit], parts[Clock], parts[SignIn], parts[OwnPassword])


@build
def tokens(parts: Parts) -> Tokens:
    settings = parts[Settings]
    return Tokens(
        parts[Database],
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
        secret=settings.jwt_secret,
        jwks_url=settings.jwt_jwks_url,
        verified_claim=settings.jwt_verified_claim,
    )


@build
def idempotency(parts: Parts) -> IdempotentRequests:
    return IdempotentRequests(parts[Database], parts[Clock])


@build
def spenders(parts: Parts) -> Spenders:
    return key_store.spenders
