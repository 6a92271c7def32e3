"""Signing in at a real OpenID provider, npm's oidc-provider, as a browser does it: forms, redirects and cookies."""

import asyncio
import json
import os
import re
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from holdfast.storage.sqlite import SqliteDatabase
from tests.support.server import TestServer, serving

pytestmark = pytest.mark.slow

NODE = Path(__file__).parents[2] / "tests" / "node"
NODE_PROGRAM = str(NODE / "node_modules" / ".bin" / "node")


async def line(process: Process) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
    return found


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    """A server whose people sign in at the provider."""
    environment = {"PATH": os.environ["PATH"], "NODE_OPTIONS": "--no-warnings"}
    provider = await asyncio.create_subprocess_exec(
        NODE_PROGRAM, str(NODE / "oidc_provider.mjs"), stdin=PIPE, stdout=PIPE, env=environment
    )
    try:
        issuer = (await line(provider))["issuer"]
        configured: dict[str, Any] = {"oidc_client_id": "holdfast", "oidc_client_secret": "a secret of the client"}
        async with serving(sqlite_database, oidc_issuer=issuer, **configured) as running:
            assert provider.stdin is not None
            provider.stdin.write(f"{running.url}/sign-in/oidc/callback\n".encode())
            assert await line(provider) == {"ready": True}
            for name in ("ada", "unverified"):
                await running.services.identity.create_user(
                    running.owner, email=f"{name}@example.com", name=name.title()
                )
            yield running
    finally:
        provider.terminate()
        await provider.wait()


async def way_back(browser: httpx.AsyncClient, login: str) -> str:
    """What a person does at the provider: follow, sign in, consent. The URL that the provider sends them back to."""
    answer = await browser.get("/sign-in/oidc")
    for _ in range(20):
        if answer.is_redirect:
            url = urljoin(str(answer.url), answer.headers["location"])
            if urlsplit(url).path == "/sign-in/oidc/callback":
                return url
            answer = await browser.get(url)
            continue
        assert answer.status_code == 200, answer.text
        action = re.search(r'<form[^>]*action="([^"]+)"', answer.text)
        prompt = re.search(r'name="prompt" value="(\w+)"', answer.text)
        assert action and prompt, answer.text
        form = {"prompt": prompt[1], "login": login, "password": "x"} if prompt[1] == "login" else {"prompt": prompt[1]}
        answer = await browser.post(urljoin(str(answer.url), action[1]), data=form)
    raise AssertionError("the provider never sent the browser back")


async def test_a_member_signs_in_at_the_provider_and_is_known_by_subject_afterwards(server: TestServer) -> None:
    for _ in range(2):
        async with server.stranger() as browser:
            arrived = await browser.get(await way_back(browser, "ada"))
            assert (arrived.status_code, arrived.headers.get("location")) == (303, "/"), arrived.text
            assert (await browser.get("/api/session")).json()["user"]["email"] == "ada@example.com"
    kept = await server.services.database.read(
        lambda tx: tx.one("SELECT oidc_subject FROM user_account WHERE email = 'ada@example.com'")
    )
    assert kept is not None and str(kept["oidc_subject"]).endswith("|ada")


@pytest.mark.parametrize("login", ["unverified", "stranger"])
async def test_an_unverified_address_and_a_stranger_stay_out(server: TestServer, login: str) -> None:
    async with server.stranger() as browser:
        refused = await browser.get(await way_back(browser, login))
        assert refused.status_code == 401 and "did not vouch for a member" in refused.text
        assert (await browser.get("/api/session")).status_code == 401


async def test_the_way_back_works_once_and_only_in_the_browser_that_left(server: TestServer) -> None:
    async with server.stranger() as attacker, server.stranger() as victim:
        back = await way_back(attacker, "ada")
        assert (await victim.get(back)).status_code == 401
        await victim.get("/sign-in/oidc")
        assert (await victim.get(back)).status_code == 401 and "holdfast_session" not in victim.cookies
        assert (await attacker.get(back)).status_code == 303
        assert (await attacker.get(back)).status_code == 401


async def test_a_code_that_was_given_to_somebody_else_is_not_taken(server: TestServer) -> None:
    """Code injection: the victim's state and cookie with the attacker's code fail at the provider, by PKCE."""
    async with server.stranger() as attacker, server.stranger() as victim:
        stolen = dict(httpx.URL(await way_back(attacker, "ada")).params)
        own = httpx.URL(await way_back(victim, "unverified"))
        assert (await victim.get(own.copy_set_param("code", stolen["code"]))).status_code == 401
        assert "holdfast_session" not in victim.cookies
