"""Owns JWT bearers from an issuer that the operator configured: by shared secret or by its published keys."""

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import Unauthenticated, UpstreamFailed
from holdfast.core.principal import SCOPES, Principal
from holdfast.features.identity import session_store, store
from holdfast.storage.database import Database, Tx

if TYPE_CHECKING:
    from jwt import PyJWKClient

_SHARED = ("HS256", "HS384", "HS512")
_PUBLISHED = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
MAX_LENGTH = 8192


class Tokens:
    """Turns a bearer JWT into the member whom its issuer vouches for."""

    def __init__(
        self,
        database: Database,
        *,
        issuer: str | None,
        audience: str | None,
        secret: str | None,
        jwks_url: str | None,
    ) -> None:
        self._database = database
        self._issuer = issuer
        self._audience = audience
        self._secret = secret
        self._jwks_url = jwks_url
        self._keys: PyJWKClient | None = None

    async def authenticate(self, token: str) -> Principal:
        """The member whom the token names by subject or verified address; Unauthenticated otherwise."""
        if len(token) > MAX_LENGTH or (self._secret is None and self._jwks_url is None):
            raise Unauthenticated
        claims = await self._claims(token)
        subject, email = claims.get("sub"), claims.get("email")
        if claims.get("email_verified") is False:
            email = None
        found = await self._database.glance(lambda tx: self._member(tx, subject, email))
        if found is None:
            raise Unauthenticated
        return found

    async def _claims(self, token: str) -> dict[str, Any]:
        # Imported at the first token: most installations have none, and it costs start-up time.
        import jwt

        try:
            if self._secret is not None:
                return self._decode(token, self._secret, _SHARED)
            if self._keys is None:
                self._keys = jwt.PyJWKClient(self._jwks_url or "", cache_keys=True, lifespan=300, timeout=5)
            key = await asyncio.to_thread(self._keys.get_signing_key_from_jwt, token)
            return self._decode(token, key.key, _PUBLISHED)
        except jwt.PyJWKClientConnectionError:
            raise UpstreamFailed("The issuer's keys cannot be fetched; check HOLDFAST_JWT_JWKS_URL.") from None
        except (jwt.PyJWTError, ValueError):
            raise Unauthenticated from None

    def _decode(self, token: str, key: Any, algorithms: tuple[str, ...]) -> dict[str, Any]:
        import jwt

        required = ["exp", "sub"] + (["iss"] if self._issuer else [])
        return jwt.decode(
            token,
            key,
            algorithms=list(algorithms),
            issuer=self._issuer,
            audience=self._audience,
            options={"require": required, "verify_aud": self._audience is not None},
        )

    @staticmethod
    def _member(tx: Tx, subject: object, email: object) -> Principal | None:
        user_id = session_store.account_by_subject(tx, str(subject))
        if user_id is None and isinstance(email, str):
            account = session_store.account_by_email(tx, email.lower())
            user_id = account.user_id if account else None
        organization_id = session_store.first_membership(tx, user_id) if user_id else None
        user = store.user(tx, organization_id, user_id) if user_id and organization_id else None
        if user is None or organization_id is None:
            return None
        return Principal(
            organization_id=organization_id,
            actor=user.id,
            proof="jwt",
            is_person=True,
            scopes=frozenset(SCOPES),
            role=user.role,
            allow_destructive=user.role != "member",
            name=user.name,
        )
