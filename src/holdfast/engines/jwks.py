"""Owns tokens that an issuer signs with published keys: fetched under bounds, matched strictly, verified in one way."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import httpcore
import jwt

from holdfast.core.errors import Unauthenticated, UpstreamFailed
from holdfast.engines.fetch.network.guard import FAILURES, system_trust
from holdfast.engines.fetch.network.url import BadUrl, parse_url

# What each algorithm takes. A key says of itself what it is, and a token's header is believed only where both agree:
# whoever could mix them would sign with a public key as a shared secret.
_KEY_OF = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
    "ES256": ("EC", ("P-256",)),
    "ES384": ("EC", ("P-384",)),
    "ES512": ("EC", ("P-521",)),
    "EdDSA": ("OKP", ("Ed25519", "Ed448")),
}
MAX_TOKEN = 8192
MAX_KEY_ID = 200
MAX_BYTES = 256 * 1024
MAX_KEYS = 100
MIN_RSA_BITS = 2048
KEPT_SECONDS = 300
# An unknown key id asks again, for issuers change keys; but not for each invented one.
ASK_AGAIN_SECONDS = 10
TIMEOUT_SECONDS = 5


class PublishedKeys:
    """The signing keys at one JWKS URL."""

    def __init__(self, url: str, remedy: str) -> None:
        """`remedy` says what to look at when the keys cannot be fetched."""
        self._url = url
        self._remedy = remedy
        self._keys: Sequence[Mapping[str, Any]] = ()
        self._fetched_at: float | None = None
        self._failed_at: float | None = None
        self._fetching = asyncio.Lock()

    async def claims(self, token: str, *, issuer: str | None, audience: str, required: Sequence[str]) -> dict[str, Any]:
        """What a token says, if a published key signed it for this audience and it is valid; Unauthenticated else."""
        try:
            algorithm, key_id = _header(token)
            key = await self._key(algorithm, key_id)
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=issuer,
                audience=audience,
                options={"require": list(required), "verify_aud": True},
            )
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            raise Unauthenticated from None

    async def _key(self, algorithm: str, key_id: str | None) -> Any:
        """The one key that this header means."""
        for fresh in (False, True):
            fitting = [each for each in await self._published(fresh=fresh) if _fits(each, algorithm, key_id)]
            if len(fitting) == 1:
                key: Any = jwt.PyJWK(dict(fitting[0]), algorithm).key
                if getattr(key, "key_size", MIN_RSA_BITS) < MIN_RSA_BITS and algorithm[:2] in ("RS", "PS"):
                    raise Unauthenticated
                return key
        raise Unauthenticated

    async def _published(self, *, fresh: bool) -> Sequence[Mapping[str, Any]]:
        async with self._fetching:
            now = time.monotonic()
            age = KEPT_SECONDS if self._fetched_at is None else now - self._fetched_at
            if age < (ASK_AGAIN_SECONDS if fresh else KEPT_SECONDS):
                return self._keys
            # Whoever waited behind a failure is not made to wait for the next one too.
            if self._failed_at is None or now - self._failed_at > 1:
                self._failed_at = now
                self._keys = await self._fetch()
                self._fetched_at, self._failed_at = time.monotonic(), None
                return self._keys
            raise UpstreamFailed(self._remedy)

    async def _fetch(self) -> Sequence[Mapping[str, Any]]:
        value = await bounded_json("GET", self._url, self._remedy)
        keys = value.get("keys")
        if not isinstance(keys, list):
            raise UpstreamFailed(self._remedy)
        return [each for each in keys[:MAX_KEYS] if isinstance(each, dict)]


async def bounded_json(
    method: str, url: str, remedy: str, *, form: Mapping[str, str] | None = None, bearer: str | None = None
) -> dict[str, Any]:
    """A JSON object from a server that the operator named: no redirects, no compression, little time and few bytes.

    Unauthenticated when it refuses; UpstreamFailed with the remedy for everything else.
    """
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if bearer is not None:
        headers["Authorization"] = f"Bearer {bearer}"
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            status, body = await _exchange(method, url, headers, urlencode(form).encode() if form is not None else None)
        if form is not None and status in (400, 401, 403):
            raise Unauthenticated
        if status != 200 or len(body) > MAX_BYTES:
            raise UpstreamFailed(remedy)
        value = json.loads(body)
    except (*FAILURES, BadUrl, TimeoutError, ValueError, RecursionError):
        raise UpstreamFailed(remedy) from None
    if not isinstance(value, dict):
        raise UpstreamFailed(remedy)
    return value


async def _exchange(method: str, text: str, headers: Mapping[str, str], body: bytes | None) -> tuple[int, bytearray]:
    """The status, and the body up to a little more than it may have."""
    url = parse_url(text)
    place = httpcore.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target)
    received = bytearray()
    async with (
        httpcore.AsyncConnectionPool(ssl_context=system_trust()) as pool,
        pool.stream(method, place, headers=[("Host", url.authority), *headers.items()], content=body) as answer,
    ):
        async for chunk in answer.aiter_stream():
            received += chunk
            if len(received) > MAX_BYTES:
                break
        return answer.status, received


def verified_email(claims: Mapping[str, Any], claim: str = "email_verified") -> str | None:
    """The address, if the issuer says that it was verified: the boolean true at that path, and nothing like it."""
    found: Any = claims
    for name in claim.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    email = claims.get("email")
    return email.lower() if found is True and isinstance(email, str) and email else None


def is_nobody(claims: Mapping[str, Any]) -> bool:
    """Whether a token names no person: no subject, an anonymous sign-in, or a project's own key, as Supabase's are."""
    subject = claims.get("sub")
    return (
        not isinstance(subject, str)
        or not subject
        or claims.get("is_anonymous", False) is not False
        or claims.get("role") in ("anon", "service_role")
    )


def _header(token: str) -> tuple[str, str | None]:
    """The algorithm and the key's id that a token claims. Every other header is ignored, above all keys and URLs."""
    if len(token) > MAX_TOKEN:
        raise Unauthenticated
    header = jwt.get_unverified_header(token)
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in _KEY_OF or (key_id is not None and not (isinstance(key_id, str) and len(key_id) <= MAX_KEY_ID)):
        raise Unauthenticated
    return algorithm, key_id


def _fits(key: Mapping[str, Any], algorithm: str, key_id: str | None) -> bool:
    kind, curves = _KEY_OF[algorithm]
    return (
        key.get("kty") == kind
        and (curves is None or key.get("crv") in curves)
        and key.get("alg") in (None, algorithm)
        and key.get("use") in (None, "sig")
        and "d" not in key
        and (key_id is None or key.get("kid") == key_id)
    )
