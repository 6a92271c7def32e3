"""Owns the way from a request's headers to a Principal: bearer key, bearer JWT, or a session cookie."""

import hmac
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from starlette.types import Scope

from holdfast.core.errors import Forbidden, HoldfastError, Unauthenticated
from holdfast.core.principal import Principal
from holdfast.core.text.redaction import redacted, redacted_path
from holdfast.features.audit.service import Audit
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.features.identity.keys.tokens import Tokens
from holdfast.features.identity.sessions.sign_in import SignIn, principal_of
from holdfast.features.usage.limiter import Limiter
from holdfast.features.usage.model import Limit, UsageKind
from holdfast.features.usage.service import Usage
from holdfast.surfaces.http.asgi import header

COOKIE = "holdfast_session"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Authenticator:
    """Says who asks, counts their requests, and records refusals."""

    def __init__(
        self,
        keys: Keys,
        sign_in: SignIn,
        tokens: Tokens,
        limiter: Limiter,
        audit: Audit,
        requests_per_minute: int,
        usage: Usage | None = None,
    ) -> None:
        self._keys = keys
        self._sign_in = sign_in
        self._tokens = tokens
        self._limiter = limiter
        self._audit = audit
        self._usage = usage
        self._limit = Limit(requests_per_minute, 60)

    async def authenticate(self, scope: Scope) -> Principal:
        """Who sent this request; Unauthenticated when nobody known did."""
        principal = await self._authenticate(scope)
        scope.setdefault("state", {})["actor"] = principal.actor
        return principal

    async def limit(self, principal: Principal) -> Mapping[str, str]:
        """Count one request of the principal's; RateLimited beyond the minute's share."""
        taken = await self._limiter.take(f"rest {principal.actor}", self._limit)
        taken.check()
        self.count(principal, "requests", source="rest")
        return taken.headers()

    def count(self, principal: Principal, kind: UsageKind, *, source: str) -> None:
        """Count one towards what the principal used this week."""
        if self._usage is not None:
            self._usage.count(principal, kind, source=source)

    async def denied(self, principal: Principal, action: str, error: HoldfastError) -> None:
        """Put a refusal into the audit log."""
        action, reason = redacted(action), redacted(error.message)
        await self._audit.record_denied(principal, action, resource="operation", resource_id=action, reason=reason)

    async def _authenticate(self, scope: Scope) -> Principal:
        authorization = header(scope, b"authorization")
        if authorization is not None:
            kind, _, credential = authorization.partition(" ")
            credential = credential.strip()
            if kind.lower() != "bearer" or not credential:
                raise Unauthenticated
            if credential.startswith(("xero_", "ks_live_")):
                return await self._keys.authenticate(credential)
            return await self._tokens.authenticate(credential)
        cookie = session_cookie(scope)
        if cookie is None:
            raise Unauthenticated
        session = await self._sign_in.session(cookie)
        if scope["method"] not in _SAFE:
            # A cookie travels with requests that other sites cause; only our pages know this token.
            given = header(scope, b"x-csrf-token") or ""
            if not hmac.compare_digest(given.encode(), session.csrf.encode()):
                error = Forbidden("The header X-CSRF-Token is missing or wrong; reload the page.", code="csrf")
                await self.denied(
                    principal_of(session), f"{scope['method']} {redacted_path(scope['path'])[:200]}", error
                )
                raise error
        return principal_of(session)


def session_cookie(scope: Scope) -> str | None:
    """The value of our cookie."""
    return cookie_of(scope, COOKIE)


def cookie_of(scope: Scope, name: str) -> str | None:
    """The value of a cookie of that name."""
    raw = header(scope, b"cookie")
    if raw is None or name not in raw:
        return None
    try:
        jar: SimpleCookie = SimpleCookie(raw)
    except CookieError:
        return None
    found = jar.get(name)
    return found.value if found else None
