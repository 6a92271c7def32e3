"""Owns what a principal holds at the moment of a change: the request may have waited while it was narrowed or ended."""

from dataclasses import replace

from holdfast.core.errors import Unauthenticated
from holdfast.core.principal import Principal
from holdfast.features.identity import store
from holdfast.features.identity.keys import store as key_store
from holdfast.features.identity.model import ApiKey
from holdfast.storage.database import Tx


def as_it_stands(tx: Tx, principal: Principal, now: int) -> Principal:
    """The same principal as this transaction knows it; Unauthenticated once the key or the membership ended."""
    if principal.actor.startswith("key_"):
        key = key_store.find(tx, principal.organization_id, principal.actor)
        if key is None or key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now):
            raise Unauthenticated
        return principal_of(key)
    if principal.actor.startswith("usr_"):
        user = store.user(tx, principal.organization_id, principal.actor)
        if user is None:
            raise Unauthenticated
        return replace(
            principal, role=user.role, allow_destructive=principal.allow_destructive and user.role != "member"
        )
    return principal


def principal_of(key: ApiKey) -> Principal:
    """Who a working key speaks for."""
    return Principal(
        organization_id=key.organization_id,
        actor=key.id,
        proof="key",
        is_person=False,
        scopes=key.scopes,
        tier=key.tier,
        project_id=key.project_id,
        workspace_ids=key.workspace_ids,
        allow_destructive=key.allow_destructive,
        name=key.name,
        catalog_search=key.catalog_search,
        expires_at=key.expires_at,
    )
