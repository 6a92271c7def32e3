"""Owns JWT bearers from an issuer that the operator configured: by shared secret or by its published keys."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import Unauthenticated
from holdfast.core.principal import SCOPES, Principal
from holdfast.features.identity import store
from holdfast.features.identity.sessions import store as session_store
from holdfast.storage.database import Database, Tx

if TYPE_CHECKING:
    from holdfast.engines.jwks import PublishedKeys

_SHARED = ("HS256", "HS384", "HS512")
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
        verified_claim: str,
    ) -> None:
        self._database = database
        self._issuer = issuer
        self._audience = audience
        self._secret = secret
        self._jwks_url = jwks_url
        self._verified_claim = verified_claim
        self._keys: PublishedKeys | None = None

    async def authenticate(self, token: str) -> Principal:
        """The member whom the token names by subject or verified address; Unauthenticated otherwise."""
        if len(token) > MAX_LENGTH or (self._secret is None and self._jwks_url is None):
            raise Unauthenticated
        # Without an audience, whatever the issuer signed for another service would do here too.
        if self._audience is None and (self._issuer is not None or self._secret is None):
            raise Unauthenticated
        # Imported at the first token: most installations have none, and it costs start-up time.
        from holdfast.engines.jwks import is_nobody, verified_email

        claims = await self._claims(token)
        if is_nobody(claims):
            raise Unauthenticated
        # Subjects are an issuer's own: the same one of another issuer is somebody else.
        subject = f"{self._issuer}|{claims['sub']}" if self._issuer is not None else None
        email = verified_email(claims, self._verified_claim)
        found = await self._database.glance(lambda tx: self._member(tx, subject, email))
        if found is None:
            raise Unauthenticated
        return found

    async def _claims(self, token: str) -> Mapping[str, Any]:
        required = ["exp", "sub"] + (["iss"] if self._issuer else []) + (["aud"] if self._audience else [])
        if self._secret is not None:
            return self._shared(token, self._secret, required)
        from holdfast.engines.jwks import PublishedKeys

        if self._keys is None:
            remedy = "The issuer's keys cannot be fetched; check HOLDFAST_JWT_JWKS_URL."
            self._keys = PublishedKeys(self._jwks_url or "", remedy)
        return await self._keys.claims(token, issuer=self._issuer, audience=self._audience or "", required=required)

    def _shared(self, token: str, secret: str, required: list[str]) -> Mapping[str, Any]:
        import jwt

        try:
            return jwt.decode(
                token,
                secret,
                algorithms=list(_SHARED),
                issuer=self._issuer,
                audience=self._audience,
                options={"require": required, "verify_aud": self._audience is not None},
            )
        except (jwt.PyJWTError, ValueError, TypeError):
            raise Unauthenticated from None

    @staticmethod
    def _member(tx: Tx, subject: str | None, email: str | None) -> Principal | None:
        user_id = session_store.account_by_subject(tx, subject) if subject is not None else None
        if user_id is None and email is not None:
            account = session_store.account_by_email(tx, email)
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
