"""A strict OpenID provider: discovery, authorization codes bound to PKCE and redirect, signed ID tokens, JWKS."""

import base64
import hashlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa


@dataclass
class FakeIssuer:
    """One provider with one client."""

    url: str = ""
    client_id: str = "holdfast"
    client_secret: str = "s3cret"
    key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)

    def authorize(self, location: str) -> str:
        """What a browser does whose user agrees: the URL it is sent back to."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        assert query["response_type"] == "code" and query["client_id"] == self.client_id
        assert query["code_challenge_method"] == "S256" and "openid" in query["scope"].split()
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token(self, **claims: Any) -> str:
        """A signed token."""
        now = int(time.time())
        payload = {"iss": self.url, "aud": self.client_id, "iat": now, "exp": now + 300, **claims}
        return jwt.encode(payload, self.key, algorithm="RS256", headers={"kid": "one"})

    async def discovery(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/jwks",
            }
        )

    async def jwks(self, request: web.Request) -> web.Response:
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
        return web.json_response({"keys": [{**public, "kid": "one", "use": "sig", "alg": "RS256"}]})

    async def exchange(self, request: web.Request) -> web.Response:
        form = await request.post()
        asked = self.codes.pop(str(form.get("code")), None)
        verifier = hashlib.sha256(str(form.get("code_verifier")).encode()).digest()
        challenge = base64.urlsafe_b64encode(verifier).decode().rstrip("=")
        right = (
            asked is not None
            and form.get("grant_type") == "authorization_code"
            and form.get("client_secret") == self.client_secret
            and form.get("redirect_uri") == asked["redirect_uri"]
            and challenge == asked["code_challenge"]
        )
        if not right or asked is None:
            return web.json_response({"error": "invalid_grant"}, status=400)
        claims = {"sub": "ada", "nonce": asked["nonce"], **self.claims}
        return web.json_response({"id_token": self.token(**claims), "access_token": "x", "token_type": "Bearer"})


@asynccontextmanager
async def fake_issuer() -> AsyncIterator[FakeIssuer]:
    """A running provider."""
    issuer = FakeIssuer()
    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", issuer.discovery)
    app.router.add_get("/jwks", issuer.jwks)
    app.router.add_post("/token", issuer.exchange)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield issuer
    finally:
        await runner.cleanup()
