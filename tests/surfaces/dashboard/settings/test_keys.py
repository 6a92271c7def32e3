"""The page of API keys: what a key would see, its secret once, rotating, revoking, and whom it is for."""

import re

import httpx

from tests.support.server import TestServer

_FORM = {"name": "laptop", "kind": "project", "scopes": ["inference"], "tier": "core"}


async def _form(server: TestServer, **more: object) -> dict[str, object]:
    return {**_FORM, "project_id": server.start.project_id, **more}


def _secret(page: httpx.Response) -> str:
    found = re.search(r"data-secret>([^<]+)<", page.text)
    assert found, page.text[:2000]
    return found[1]


async def test_a_minted_key_is_shown_once_and_works(sqlite_server: TestServer) -> None:
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        made = await owner.post("/settings/keys", data=await _form(sqlite_server))
        secret = _secret(made)
        again = await owner.get("/settings/keys")
    assert made.status_code == 200 and made.headers["cache-control"] == "no-store"
    assert secret not in str(made.headers) and secret not in again.text and "laptop" in again.text
    async with sqlite_server.client(secret) as client:
        assert (await client.get("/api/me")).status_code == 200


async def test_rotating_shows_a_fresh_secret_and_ends_the_old_one(sqlite_server: TestServer) -> None:
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        old = _secret(await owner.post("/settings/keys", data=await _form(sqlite_server)))
        key = (await sqlite_server.services.keys.list(sqlite_server.owner)).items[-1]
        new = _secret(await owner.post(f"/settings/keys/{key.id}/rotate"))
        revoked = await owner.post(f"/settings/keys/{key.id}/rotate")
        newest = (await sqlite_server.services.keys.list(sqlite_server.owner)).items[-1]
        gone = await owner.post(f"/settings/keys/{newest.id}/revoke")
    assert (revoked.status_code, gone.status_code) == (409, 303)
    for secret in (old, new):
        async with sqlite_server.client(secret) as client:
            assert (await client.get("/api/me")).status_code == 401


async def test_what_a_key_sees_grows_with_its_tier_and_costs_what_mcp_lists(sqlite_server: TestServer) -> None:
    tokens = {}
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        for tier in ("core", "all"):
            part = await owner.post(
                "/settings/keys/seen", data=await _form(sqlite_server, tier=tier), headers={"HX-Request": "true"}
            )
            assert "<html" not in part.text and "xerotier.memory.save" in part.text
            tokens[tier] = int(re.findall(r"<strong>about ([\d,]+) tokens</strong>", part.text)[0].replace(",", ""))
    assert 0 < tokens["core"] < tokens["all"]


async def test_a_wrong_form_keeps_what_was_written_and_says_what_is_wrong(sqlite_server: TestServer) -> None:
    hostile = '"><script>alert(1)</script>'
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        refused = await owner.post("/settings/keys", data=await _form(sqlite_server, name=hostile, scopes=[]))
        forged = await owner.post("/settings/keys", data=await _form(sqlite_server), headers={"X-CSRF-Token": "no"})
    assert refused.status_code in (400, 422) and "choose from" in refused.text
    assert "<script>alert" not in refused.text and "&lt;script&gt;" in refused.text
    assert forged.status_code == 403


async def test_keys_are_for_owners_and_admins_and_hidden_from_members(sqlite_server: TestServer) -> None:
    identity = sqlite_server.services.identity
    admin = await identity.create_user(sqlite_server.owner, email="ann@example.com", name="Ann", role="admin")
    member = await identity.create_user(sqlite_server.owner, email="mo@example.com", name="Mo")
    async with await sqlite_server.browser(admin.id) as ann:
        assert (await ann.get("/settings/keys")).status_code == 200
    async with await sqlite_server.browser(member.id) as mo:
        assert "/settings/keys" not in (await mo.get("/")).text
        assert (await mo.get("/settings/keys")).status_code == 403
        assert (await mo.post("/settings/keys", data=await _form(sqlite_server))).status_code == 403
