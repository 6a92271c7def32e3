"""Signing in from a browser, and JWT bearers: what opens the door, and what does not."""

import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import jwt
import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.oidc import FakeIssuer, fake_issuer
from tests.support.clock import MovableClock
from tests.support.server import TestServer, serving

SECRET = "a shared secret of more than thirty-two characters"


@pytest.fixture
async def issuer() -> AsyncIterator[FakeIssuer]:
    async with fake_issuer() as running:
        yield running


@pytest.fixture
async def oidc_server(sqlite_database: SqliteDatabase, issuer: FakeIssuer) -> AsyncIterator[TestServer]:
    configured: dict[str, Any] = {
        "oidc_issuer": issuer.url,
        "oidc_client_id": issuer.client_id,
        "oidc_client_secret": issuer.client_secret,
    }
    async with serving(sqlite_database, **configured) as server:
        await server.services.identity.create_user(server.owner, email="ada@example.com", name="Ada")
        yield server


async def come_back(server: TestServer, issuer: FakeIssuer, browser: httpx.AsyncClient) -> httpx.Response:
    departure = await browser.get("/sign-in/oidc")
    assert departure.status_code == 303
    return await browser.get(issuer.authorize(departure.headers["location"]))


async def test_a_password_opens_a_session_with_a_safe_cookie(sqlite_server: TestServer) -> None:
    await sqlite_server.services.identity.create_user(
        sqlite_server.owner, email="bob@example.com", name="Bob", password="a long password"
    )
    async with sqlite_server.stranger() as browser:
        wrong = await browser.post("/sign-in", data={"email": "bob@example.com", "password": "wrong"})
        nobody = await browser.post("/sign-in", data={"email": "nobody@example.com", "password": "wrong"})
        assert (wrong.status_code, wrong.text) == (nobody.status_code, nobody.text) and wrong.status_code == 401
        right = await browser.post("/sign-in", data={"email": "bob@example.com", "password": "a long password"})
        assert right.status_code == 303
        assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(right.headers["set-cookie"].split("; "))
        assert (await browser.get("/api/me")).json()["name"] == "Bob"
        await browser.post("/sign-out")
        assert (await browser.get("/api/me")).status_code == 401
    events = (await sqlite_server.services.audit.list(sqlite_server.owner, limit=200)).items
    assert [event.outcome for event in events if event.action == "session.start"] == ["allowed", "denied"]


async def test_a_session_changes_things_only_with_its_csrf_token(sqlite_server: TestServer) -> None:
    sign_in = sqlite_server.services.sign_in
    signed_in = await sign_in.by_link(await sqlite_server.link(sqlite_server.start.owner_id))
    async with sqlite_server.stranger() as browser:
        browser.cookies.set("holdfast_session", signed_in.cookie)
        refused = await browser.post("/api/projects", json={"name": "X"})
        allowed = await browser.post(
            "/api/projects", json={"name": "X"}, headers={"X-CSRF-Token": signed_in.session.csrf}
        )
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "csrf")
    assert allowed.status_code == 201
    events = (await sqlite_server.services.audit.list(sqlite_server.owner, limit=200)).items
    assert [event.actor for event in events if event.outcome == "denied"] == [sqlite_server.start.owner_id]


async def test_cookies_are_secure_behind_https(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database, secure_cookies=True) as server, server.stranger() as browser:
        link = await server.link(server.start.owner_id)
        entered = await browser.post("/sign-in", data={"link": link})
    assert "; Secure" in entered.headers["set-cookie"]


async def test_guessing_is_limited(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database, sign_ins_per_minute=3) as server, server.stranger() as browser:
        answers = [
            (await browser.post("/sign-in", data={"email": "a@example.com", "password": "x"})).status_code
            for _ in range(5)
        ]
    assert answers == [401, 401, 401, 429, 429]


async def test_a_page_of_another_site_cannot_sign_anybody_in(sqlite_server: TestServer) -> None:
    async with sqlite_server.stranger() as browser:
        answer = await browser.post("/sign-in", data={"link": "x"}, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403


async def test_an_issuer_vouches_by_verified_address_and_then_by_subject(
    oidc_server: TestServer, issuer: FakeIssuer
) -> None:
    issuer.claims = {"email": "Ada@Example.com", "email_verified": True}
    async with oidc_server.stranger() as browser:
        assert "Sign in with your organization" in (await browser.get("/sign-in")).text
        assert (await come_back(oidc_server, issuer, browser)).status_code == 303
        assert (await browser.get("/api/me")).json()["name"] == "Ada"
    issuer.claims = {}
    async with oidc_server.stranger() as browser:
        assert (await come_back(oidc_server, issuer, browser)).status_code == 303


@pytest.mark.parametrize(
    "claims",
    [
        {"email": "ada@example.com", "email_verified": False},
        {"email": "ada@example.com"},
        {"email": "stranger@example.com", "email_verified": True},
        {"email": "ada@example.com", "email_verified": True, "nonce": "another"},
        {"email": "ada@example.com", "email_verified": True, "aud": "another"},
        {"email": "ada@example.com", "email_verified": True, "iss": "https://another.example"},
        {"email": "ada@example.com", "email_verified": True, "exp": 1},
        {"email": "ada@example.com", "email_verified": "true"},
        {"email": "ada@example.com", "email_verified": 1},
        {"email": "ada@example.com", "user_metadata": {"email_verified": True}},
        {"email": "ada@example.com", "email_verified": True, "sub": ""},
        {"email": "ada@example.com", "email_verified": True, "is_anonymous": True},
        {"email": "ada@example.com", "email_verified": True, "aud": ["holdfast", "another"]},
        {"email": "ada@example.com", "email_verified": True, "azp": "another"},
        {"email": "ada@example.com", "email_verified": True, "iat": 2**40},
    ],
)
async def test_what_an_issuer_does_not_vouch_for_stays_out(
    oidc_server: TestServer, issuer: FakeIssuer, claims: dict[str, Any]
) -> None:
    issuer.claims = claims
    async with oidc_server.stranger() as browser:
        assert (await come_back(oidc_server, issuer, browser)).status_code == 401
        assert (await browser.get("/api/me")).status_code == 401


async def test_a_replayed_or_invented_state_stays_out(oidc_server: TestServer, issuer: FakeIssuer) -> None:
    issuer.claims = {"email": "ada@example.com", "email_verified": True}
    async with oidc_server.stranger() as browser:
        departure = await browser.get("/sign-in/oidc")
        back = issuer.authorize(departure.headers["location"])
        assert (await browser.get(back)).status_code == 303
        assert (await browser.get(back)).status_code == 401
        assert (await browser.get("/sign-in/oidc/callback?code=x&state=y")).status_code == 401


async def test_an_answer_that_another_browser_asked_for_signs_nobody_in(
    oidc_server: TestServer, issuer: FakeIssuer
) -> None:
    """Login CSRF: the attacker begins, agrees at the issuer, and gets the victim's browser to open the way back."""
    issuer.claims = {"email": "ada@example.com", "email_verified": True}
    async with oidc_server.stranger() as attacker, oidc_server.stranger() as victim:
        departure = await attacker.get("/sign-in/oidc")
        back = issuer.authorize(departure.headers["location"])
        fooled = await victim.get(back)
        assert fooled.status_code == 401 and "holdfast_session" not in victim.cookies
        # Also where the victim is signing in at the same time.
        await victim.get("/sign-in/oidc")
        assert (await victim.get(back)).status_code == 401 and "holdfast_session" not in victim.cookies
        # And the failed attempts did not use the right one up.
        assert (await attacker.get(back)).status_code == 303


async def test_the_cookie_of_an_attempt_is_short_lived_and_goes_away(
    oidc_server: TestServer, issuer: FakeIssuer
) -> None:
    issuer.claims = {"email": "ada@example.com", "email_verified": True}
    async with oidc_server.stranger() as browser:
        departure = await browser.get("/sign-in/oidc")
        name, *flags = departure.headers["set-cookie"].split("; ")
        assert name.startswith("holdfast_oidc=") and len(name) > 40
        assert set(flags) == {"Path=/sign-in/oidc", "HttpOnly", "SameSite=Lax", "Max-Age=600"}
        assert name.split("=")[1] not in departure.headers["location"]
        arrived = await browser.get(issuer.authorize(departure.headers["location"]))
        assert any("holdfast_oidc=;" in each and "Max-Age=0" in each for each in arrived.headers.get_list("set-cookie"))
        assert "holdfast_oidc" not in browser.cookies


async def test_behind_https_no_other_host_can_set_the_cookie_of_an_attempt(
    sqlite_database: SqliteDatabase, issuer: FakeIssuer
) -> None:
    configured: dict[str, Any] = {"oidc_issuer": issuer.url, "oidc_client_id": issuer.client_id, "secure_cookies": True}
    async with serving(sqlite_database, **configured) as server, server.stranger() as browser:
        name, *flags = (await browser.get("/sign-in/oidc")).headers["set-cookie"].split("; ")
    assert name.startswith("__Host-holdfast_oidc=")
    assert set(flags) == {"Path=/", "Secure", "HttpOnly", "SameSite=Lax", "Max-Age=600"}


async def test_an_attempt_runs_out(sqlite_database: SqliteDatabase, issuer: FakeIssuer, clock: MovableClock) -> None:
    configured: dict[str, Any] = {
        "oidc_issuer": issuer.url,
        "oidc_client_id": issuer.client_id,
        "oidc_client_secret": issuer.client_secret,
    }
    issuer.claims = {"email": "ada@example.com", "email_verified": True}
    async with serving(sqlite_database, clock=clock, **configured) as server, server.stranger() as browser:
        await server.services.identity.create_user(server.owner, email="ada@example.com", name="Ada")
        departure = await browser.get("/sign-in/oidc")
        clock.advance(seconds=601)
        assert (await browser.get(issuer.authorize(departure.headers["location"]))).status_code == 401


async def test_whoever_set_an_account_up_is_out_once_its_address_is_proven(
    oidc_server: TestServer, issuer: FakeIssuer
) -> None:
    services = oidc_server.services
    bob = await services.identity.create_user(
        oidc_server.owner, email="bob@example.com", name="Bob", password="known to the admin"
    )
    before = await oidc_server.browser(bob.id)
    issuer.claims = {"sub": "bob", "email": "bob@example.com", "email_verified": True}
    async with oidc_server.stranger() as browser, before:
        assert (await before.get("/api/session")).status_code == 200
        assert (await come_back(oidc_server, issuer, browser)).status_code == 303
        assert (await before.get("/api/session")).status_code == 401
        form = {"email": "bob@example.com", "password": "known to the admin"}
        assert (await before.post("/sign-in", data=form)).status_code == 401


def bearer(**claims: Any) -> dict[str, str]:
    known = {"sub": "x", "email": "ada@example.com", "email_verified": True}
    payload = {**known, "exp": time.time() + 60, "iss": "me", "aud": "us", **claims}
    return {"Authorization": f"Bearer {jwt.encode(payload, SECRET, algorithm='HS256')}"}


async def test_a_shared_secret_vouches_for_members(sqlite_database: SqliteDatabase) -> None:
    configured: dict[str, Any] = {"jwt_secret": SECRET, "jwt_issuer": "me", "jwt_audience": "us"}
    async with serving(sqlite_database, **configured) as server, server.stranger() as client:
        await server.services.identity.create_user(server.owner, email="ada@example.com", name="Ada")
        good = await client.get("/api/me", headers=bearer())
        assert (good.json()["name"], good.json()["proof"]) == ("Ada", "jwt")
        for wrong in (
            bearer(exp=1),
            bearer(iss="you"),
            bearer(aud="them"),
            bearer(email="stranger@example.com"),
            bearer(email_verified=False),
            {"Authorization": f"Bearer {jwt.encode({'sub': 'x', 'email': 'ada@example.com'}, '', algorithm='none')}"},
        ):
            assert (await client.get("/api/me", headers=wrong)).status_code == 401


async def test_published_keys_vouch_for_members(sqlite_database: SqliteDatabase, issuer: FakeIssuer) -> None:
    configured: dict[str, Any] = {
        "jwt_jwks_url": f"{issuer.url}/jwks",
        "jwt_issuer": issuer.url,
        "jwt_audience": issuer.client_id,
    }
    async with serving(sqlite_database, **configured) as server, server.stranger() as client:
        await server.services.identity.create_user(server.owner, email="ada@example.com", name="Ada")
        token = issuer.token(sub="x", email="ada@example.com", email_verified=True)
        assert (await client.get("/api/me", headers={"Authorization": f"Bearer {token}"})).status_code == 200
        # The public key must never be taken for a shared secret.
        forged = {"Authorization": f"Bearer {jwt.encode({'sub': 'x', 'exp': 2**40}, SECRET, algorithm='HS256')}"}
        assert (await client.get("/api/me", headers=forged)).status_code == 401


async def test_whoever_opens_a_page_and_signs_in_first_comes_back_to_it(sqlite_server: TestServer) -> None:
    link = await sqlite_server.link(sqlite_server.start.owner_id)
    async with sqlite_server.stranger() as browser:
        asked = await browser.get("/w/default/memory?q=a%26b")
        entered = await browser.post("/sign-in", data={"link": link})
        again = await browser.get(entered.headers["location"])
        browser.cookies.delete("holdfast_session")
        later = await browser.post("/sign-in", data={"link": await sqlite_server.link(sqlite_server.start.owner_id)})
    assert (asked.status_code, asked.headers["location"]) == (303, "/sign-in")
    assert entered.headers["location"] == "/w/default/memory?q=a%26b" and again.status_code == 200
    assert later.headers["location"] == "/"


@pytest.mark.parametrize(
    "planted",
    ["//evil.example", "/%5Cevil.example", "https%3A%2F%2Fevil.example", "%2F%2Fevil.example", "/a%0d%0aX: 1"],
)
async def test_a_planted_cookie_leads_nowhere_else_after_signing_in(sqlite_server: TestServer, planted: str) -> None:
    link = await sqlite_server.link(sqlite_server.start.owner_id)
    async with sqlite_server.stranger() as browser:
        entered = await browser.post("/sign-in", data={"link": link}, headers={"Cookie": f"holdfast_wanted={planted}"})
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
