"""Owns OpenID Connect as a client: discovery, the way there with PKCE, and what comes back, verified."""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from holdfast.core.errors import Unauthenticated, UpstreamFailed
from holdfast.engines.jwks import PublishedKeys, bounded_json, is_nobody, verified_email

_REMEDY = "The sign-in provider does not answer as it should; check HOLDFAST_OIDC_ISSUER."
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


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
        self._keys: PublishedKeys | None = None

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
        answer = await bounded_json("POST", metadata["token_endpoint"], _REMEDY, form=form)
        claims = await self._verified(str(answer.get("id_token", "")), metadata, nonce)
        email = verified_email(await self._described(claims, answer, metadata))
        return Vouched(f"{metadata['issuer']}|{claims['sub']}", email)

    async def _verified(self, token: str, metadata: Mapping[str, Any], nonce: str) -> Mapping[str, Any]:
        if self._keys is None:
            self._keys = PublishedKeys(
                metadata["jwks_uri"], "The sign-in provider's keys cannot be fetched; try again."
            )
        required = ["exp", "iat", "sub", "iss", "aud"]
        claims = await self._keys.claims(token, issuer=metadata["issuer"], audience=self._client_id, required=required)
        # A token for several audiences names the one that asked for it.
        party = claims.get("azp", self._client_id if claims["aud"] in (self._client_id, [self._client_id]) else None)
        if claims.get("nonce") != nonce or party != self._client_id or is_nobody(claims):
            raise Unauthenticated
        return claims

    async def _described(
        self, claims: Mapping[str, Any], answer: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """The claims about the person: many issuers keep the address out of the ID token and tell it when asked."""
        endpoint, access = metadata.get("userinfo_endpoint"), answer.get("access_token")
        if "email" in claims or not isinstance(endpoint, str) or not isinstance(access, str):
            return claims
        told = await bounded_json("GET", endpoint, _REMEDY, bearer=access)
        # An access token of somebody else would describe somebody else.
        return told if told.get("sub") == claims["sub"] else claims

    async def _discover(self) -> dict[str, Any]:
        if self._metadata is None:
            metadata = await bounded_json("GET", f"{self._issuer}/.well-known/openid-configuration", _REMEDY)
            if str(metadata.get("issuer", "")).rstrip("/") != self._issuer:
                raise UpstreamFailed("The sign-in provider names another issuer; check HOLDFAST_OIDC_ISSUER.")
            if not all(isinstance(metadata.get(each), str) for each in _ENDPOINTS):
                raise UpstreamFailed(_REMEDY)
            self._metadata = metadata
        return self._metadata
