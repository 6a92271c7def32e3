"""The pages of people: inviting, roles, links, removing, and who administers a workspace."""

import re

import httpx

from tests.support.server import TestServer


def _secret(page: httpx.Response) -> str:
    found = re.search(r"data-secret>([^<]+)<", page.text)
    assert found, page.text[:2000]
    return found[1]


async def test_somebody_is_invited_by_a_link_that_is_shown_once(sqlite_server: TestServer) -> None:
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner, sqlite_server.stranger() as new:
        form = {"email": "grace@example.com", "name": "Grace", "role": "member"}
        made = await owner.post("/settings/people", data=form)
        link = _secret(made)
        again = await owner.get("/settings/people")
        joining = await new.get(link.replace("https://", "http://"))
        known = await owner.post("/settings/people", data={**form, "email": "nobody"})
    assert made.headers["cache-control"] == "no-store" and link not in again.text
    assert "grace@example.com" in again.text and joining.status_code == 200
    assert known.status_code == 422 and 'id="wrong-email"' in known.text and 'value="nobody"' in known.text


async def test_an_invitation_is_taken_back(sqlite_server: TestServer) -> None:
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        await owner.post("/settings/people", data={"email": "grace@example.com", "role": "member"})
        page = (await owner.get("/settings/people")).text
        action = re.search(r'action="(/settings/people/invitations/[^"]+/withdraw)"', page)
        assert action is not None
        assert (await owner.post(action[1])).status_code == 303
        assert "grace@example.com" not in (await owner.get("/settings/people")).text


async def test_a_role_changes_a_link_signs_in_and_somebody_goes(sqlite_server: TestServer) -> None:
    grace = await sqlite_server.services.identity.create_user(
        sqlite_server.owner, email="grace@example.com", name="Grace"
    )
    one = f"/settings/people/{grace.id}"
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        assert (await owner.post(one + "/role", data={"role": "admin"})).status_code == 303
        assert (await owner.post(one + "/role", data={"role": "king"})).status_code == 422
        link = _secret(await owner.post(one + "/link"))
        secret = link.rpartition("link=")[2]
        assert (await sqlite_server.services.sign_in.by_link(secret)).session.role == "admin"
        assert (await owner.post(one + "/remove")).status_code == 303
        assert "Grace" not in (await owner.get("/settings/people")).text
        last = await owner.post(f"/settings/people/{sqlite_server.start.owner_id}/role", data={"role": "member"})
        assert last.status_code == 409 and "needs an owner" in last.text


async def test_removing_somebody_revokes_their_keys_only_when_asked(sqlite_server: TestServer) -> None:
    services = sqlite_server.services
    for revoke, state in (("", None), ("1", "revoked")):
        ada = await services.identity.create_user(
            sqlite_server.owner, email="ada@example.com", name="Ada", role="admin"
        )
        async with await sqlite_server.browser(ada.id) as own:
            form = {"name": "adas", "project_id": sqlite_server.start.project_id, "scopes": "read", "tier": "core"}
            assert (await own.post("/settings/keys", data=form)).status_code == 200
        async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
            await owner.post(f"/settings/people/{ada.id}/remove", data={"revoke_keys": revoke})
        key = (await services.keys.list(sqlite_server.owner)).items[-1]
        assert (key.revoked_at is not None) == (state == "revoked")


async def test_an_admin_hands_out_no_more_than_they_have(sqlite_server: TestServer) -> None:
    identity = sqlite_server.services.identity
    ann = await identity.create_user(sqlite_server.owner, email="ann@example.com", name="Ann", role="admin")
    async with await sqlite_server.browser(ann.id) as client:
        page = (await client.get("/settings/people")).text
        assert '<option value="owner"' not in page and f"{sqlite_server.start.owner_id}/remove" not in page
        refused = await client.post("/settings/people", data={"email": "eve@example.com", "role": "owner"})
        assert refused.status_code == 403 and "data-secret" not in refused.text
        taken = await client.post(f"/settings/people/{sqlite_server.start.owner_id}/role", data={"role": "member"})
        assert taken.status_code == 403


async def test_a_member_is_made_admin_of_a_workspace_and_no_longer(sqlite_server: TestServer) -> None:
    grace = await sqlite_server.services.identity.create_user(
        sqlite_server.owner, email="grace@example.com", name="Grace"
    )
    url = "/w/default/settings/members"
    async with (
        await sqlite_server.browser(sqlite_server.start.owner_id) as owner,
        await sqlite_server.browser(grace.id) as own,
    ):
        assert "Make admin" not in (await own.get(url)).text
        assert "/settings/secrets" not in (await own.get("/")).text
        await owner.post(f"{url}/{grace.id}/admin", data={"admin": "yes"})
        assert "administers this workspace" in (await owner.get(url)).text
        assert "/settings/secrets" in (await own.get("/")).text
        assert (await own.post(url + "/name", data={"name": "Research"})).status_code == 303
        assert "Research" in (await own.get(url)).text
        await owner.post(f"{url}/{grace.id}/admin", data={"admin": "no"})
        assert (await own.post(url + "/name", data={"name": "Hers"})).status_code == 403
        assert (await own.post(url + "/delete", data={"typed": "Research"})).status_code == 403


async def test_a_workspace_is_made_and_ends_only_by_its_name(sqlite_server: TestServer) -> None:
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        made = await owner.post("/w/default/settings/members/new", data={"new_name": "Side project"})
        assert made.headers["location"] == "/w/side-project/memory"
        url = "/w/side-project/settings/members"
        wrong = await owner.post(url + "/delete", data={"typed": "Default"})
        assert wrong.status_code == 422 and 'id="wrong-typed"' in wrong.text
        assert (await owner.post(url + "/delete", data={"typed": "Side project"})).status_code == 303
        assert (await owner.get(url)).status_code == 404
        nameless = await owner.post("/w/default/settings/members/new", data={"new_name": " "})
        assert nameless.status_code == 422 and 'id="wrong-new_name"' in nameless.text
