"""Owns OpenID Connect as a client: discovery, the way there with PKCE, and what comes back, verified."""

import asyncio
import base64
import hashlib
import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import aiohttp
import jwt

from holdfast.core.errors import Unauthenticated, UpstreamFailed

TIMEOUT = aiohttp.ClientTimeout(total=10)
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


@dataclass(frozen=True, slots=True)
class Departure:
    """A sign-in under way: where the browser goes, and what must be remembered until it comes back."""

    url: str
    state: str
    verifier: str
    nonce: str


@dataclass(frozen=True, slots=True)
class Vouched:
    """Whom the issuer vouches for; the address only when the issuer verified it."""

    subject: str
    email: str | None


class OidcClient:
    """One issuer."""

    def __init__(self, issuer: str, client_id: str, client_secret: str | None) -> None:
        self._issuer = issuer.rstrip("/")
        self._client_id = client_id
        self._client_secret = client_secret
        self._metadata: dict[str, Any] | None = None
        self._keys: jwt.PyJWKClient | None = None

    async def depart(self, redirect_uri: str) -> Departure:
        """Where to send the browser."""
        metadata = await self._discover()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "scope": "openid email profile",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        separator = "&" if "?" in metadata["authorization_endpoint"] else "?"
        return Departure(f"{metadata['authorization_endpoint']}{separator}{urlencode(query)}", state, verifier, nonce)

    async def arrive(self, code: str, redirect_uri: str, verifier: str, nonce: str) -> Vouched:
        """Exchange the code and verify the ID token: signature, issuer, audience, time and nonce."""
        metadata = await self._discover()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": self._client_id,
            "code_verifier": verifier,
        }
        if self._client_secret is not None:
            form["client_secret"] = self._client_secret
        answer = await self._post(metadata["token_endpoint"], form)
        return await self._verified(str(answer.get("id_token", "")), metadata, nonce)

    async def _verified(self, token: str, metadata: dict[str, Any], nonce: str) -> Vouched:
        if self._keys is None:
            self._keys = jwt.PyJWKClient(metadata["jwks_uri"], cache_keys=True, lifespan=300, timeout=5)
        try:
            key = await asyncio.to_thread(self._keys.get_signing_key_from_jwt, token)
            claims = jwt.decode(
                token,
                key.key,
                algorithms=_ALGORITHMS,
                issuer=metadata["issuer"],
                audience=self._client_id,
                options={"require": ["exp", "iat", "sub", "iss", "aud"]},
            )
        except jwt.PyJWKClientConnectionError:
            raise UpstreamFailed("The sign-in provider's keys cannot be fetched; try again.") from None
        except (jwt.PyJWTError, ValueError):
            raise Unauthenticated from None
        if claims.get("nonce") != nonce:
            raise Unauthenticated
        email = claims.get("email") if claims.get("email_verified") is True else None
        return Vouched(f"{metadata['issuer']}|{claims['sub']}", email)

    async def _discover(self) -> dict[str, Any]:
        if self._metadata is None:
            url = f"{self._issuer}/.well-known/openid-configuration"
            try:
                async with aiohttp.ClientSession(timeout=TIMEOUT) as session, session.get(url) as answer:
                    answer.raise_for_status()
                    metadata = await answer.json(content_type=None)
            except (aiohttp.ClientError, TimeoutError, ValueError):
                raise UpstreamFailed("The sign-in provider does not answer; check HOLDFAST_OIDC_ISSUER.") from None
            if not isinstance(metadata, dict) or str(metadata.get("issuer", "")).rstrip("/") != self._issuer:
                raise UpstreamFailed("The sign-in provider names another issuer; check HOLDFAST_OIDC_ISSUER.")
            self._metadata = metadata
        return self._metadata

    @staticmethod
    async def _post(url: str, form: dict[str, str]) -> dict[str, Any]:
        try:
            async with aiohttp.ClientSession(timeout=TIMEOUT) as session, session.post(url, data=form) as answer:
                if answer.status in (400, 401, 403):
                    raise Unauthenticated
                answer.raise_for_status()
                value = await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError):
            raise UpstreamFailed("The sign-in provider does not answer; try again.") from None
        return value if isinstance(value, dict) else {}
