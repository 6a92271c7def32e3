"""People over the wire: they are invited and agree, nobody else touches their account, no role reaches above itself."""

from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from holdfast.core.errors import Unauthenticated
from holdfast.core.principal import SCOPES
from holdfast.features.identity.model import NewKey
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.server import serving
from tests.surfaces.identity.people import PASSWORD, People, secret_of


async def test_an_invitation_looks_the_same_whether_or_not_somebody_has_the_address(people: People) -> None:
    other = await people.server.another_tenant()
    await people.add("known@example.com", tenant=other)
    owner = await people.sign_in(people.server.start.owner_id)
    answers = [
        await owner.post("/api/users", json={"email": email, "role": "member"})
        for email in ("known@example.com", "fresh@example.com")
    ]
    assert [answer.status_code for answer in answers] == [201, 201]
    known, fresh = (answer.json() for answer in answers)
    assert known.keys() == fresh.keys() and known["name"] == "known" and known["role"] == fresh["role"]
    members = (await owner.get("/api/users")).json()["items"]
    assert [each["email"] for each in members] == ["owner@localhost"]
    listed = (await owner.get("/api/invitations")).json()["items"]
    assert [each["email"] for each in listed] == ["known@example.com", "fresh@example.com"]
    assert "url" not in listed[0]
    pages = [(await owner.get(each["url"])).text for each in (known, fresh)]
    assert pages[0].replace("known", "x").replace(secret_of(known["url"]), "") == pages[1].replace(
        "fresh", "x"
    ).replace(secret_of(fresh["url"]), "")


async def test_an_account_joins_only_when_its_owner_accepts_while_signed_in(people: People) -> None:
    server = people.server
    other = await server.another_tenant()
    victim_id = await people.add("victim@example.com", role="owner", tenant=other)
    victim = await people.sign_in(victim_id, other)
    attacker = await people.sign_in(server.start.owner_id)
    invited = (await attacker.post("/api/users", json={"email": "victim@example.com", "role": "member"})).json()
    for attempt in (
        await attacker.put(f"/api/users/{victim_id}/password", json={"password": PASSWORD}),
        await attacker.post(f"/api/users/{victim_id}/sign-in-link"),
        await attacker.patch(f"/api/users/{victim_id}", json={"role": "member"}),
    ):
        assert attempt.status_code == 404, attempt.text
    # The link alone does not open an account that there is: neither for the attacker nor for a stranger.
    stranger = await people.stranger()
    for browser in (attacker, stranger):
        refused = await browser.post("/join", data={"invitation": secret_of(invited["url"]), "password": PASSWORD})
        assert refused.status_code == 403 and "holdfast_session" not in refused.cookies
    wrong = await attacker.post("/api/me/invitations/accept", json={"token": secret_of(invited["url"])})
    assert wrong.status_code == 404
    (own,) = (await victim.get("/api/me/invitations")).json()["items"]
    assert (own["id"], own["organization"]) == (invited["id"], "My team")
    joined = await victim.post("/api/me/invitations/accept", json={"token": secret_of(invited["url"])})
    assert joined.status_code == 200, joined.text
    again = await victim.post("/api/me/invitations/accept", json={"token": secret_of(invited["url"])})
    assert (again.status_code, again.json()["error"]["code"]) == (409, "invitation_over")
    # Now that it belongs to two organizations, no admin opens the account.
    link = await attacker.post(f"/api/users/{victim_id}/sign-in-link")
    assert link.status_code == 409 and "another organization" in link.json()["error"]["message"]
    switched = await victim.put("/api/session", json={"organization_id": server.start.organization_id})
    assert (switched.status_code, switched.json()["role"]) == (200, "member")
    assert {each["role"] for each in switched.json()["organizations"]} == {"owner", "member"}
    assert (await victim.put("/api/session", json={"organization_id": "org_else"})).status_code == 404


async def test_a_new_person_joins_by_the_link_and_names_themselves(people: People) -> None:
    owner = await people.sign_in(people.server.start.owner_id)
    made = await owner.post("/api/users", json={"email": "New@Example.com", "name": "Suggested", "role": "admin"})
    link = made.json()["url"]
    browser = await people.stranger()
    for _ in range(2):
        shown = await browser.get(link)
        assert shown.status_code == 200 and "new@example.com" in shown.text and "Your role: admin" in shown.text
    form = {"invitation": secret_of(link), "name": "Chosen", "password": PASSWORD}
    assert (await browser.post("/join", data=form)).status_code == 303
    me = (await browser.get("/api/session")).json()
    assert (me["user"]["name"], me["role"]) == ("Chosen", "admin")
    late = await people.stranger()
    used = await late.post("/join", data=form)
    assert used.status_code == 409 and "accepted on" in used.text
    assert (await late.get(link)).status_code == 409
    assert (await late.post("/sign-in", data={"email": "new@example.com", "password": PASSWORD})).status_code == 303


async def test_somebody_with_a_password_joins_by_the_link_and_that_password(people: People) -> None:
    other = await people.server.another_tenant()
    await people.add("known@example.com", tenant=other, password=PASSWORD)
    owner = await people.sign_in(people.server.start.owner_id)
    link = (await owner.post("/api/users", json={"email": "known@example.com"})).json()["url"]
    browser = await people.stranger()
    wrong = await browser.post("/join", data={"invitation": secret_of(link), "password": "wrong password"})
    assert wrong.status_code == 403
    assert (await browser.post("/join", data={"invitation": secret_of(link), "password": PASSWORD})).status_code == 303
    shown = (await browser.get("/api/session")).json()
    assert shown["organization"]["id"] == people.server.start.organization_id and len(shown["organizations"]) == 2


async def test_the_page_of_somebody_signed_in_accepts_with_their_token_only(few: People) -> None:
    other = await few.server.another_tenant()
    guest = await few.sign_in(await few.add("guest@example.com", tenant=other), other)
    owner = await few.sign_in(few.server.start.owner_id)
    link = (await owner.post("/api/users", json={"email": "guest@example.com"})).json()["url"]
    assert "Accept" in (await guest.get(link)).text
    form = {"invitation": secret_of(link)}
    assert (await guest.post("/join", data=form)).status_code == 401
    assert (await guest.post("/join", data={**form, "csrf": guest.headers["X-CSRF-Token"]})).status_code == 303
    assert (await guest.get("/api/session")).json()["organization"]["id"] == few.server.start.organization_id


async def test_joining_elsewhere_asks_for_the_password_and_leaves_no_other_way_in(people: People) -> None:
    server = people.server
    other = await server.another_tenant()
    user_id = await people.add("bob@example.com", tenant=other)
    admin = await people.sign_in(await people.add("admin@example.com", "admin", other), other)
    bob = await people.sign_in(user_id, other)
    assert (await bob.put(f"/api/users/{user_id}/password", json={"password": PASSWORD})).status_code == 204
    # The admin opens the member's account while it belongs here alone, and keeps a session and a link.
    first = secret_of((await admin.post(f"/api/users/{user_id}/sign-in-link")).json()["url"])
    spare = secret_of((await admin.post(f"/api/users/{user_id}/sign-in-link")).json()["url"])
    impostor = await people.stranger()
    assert (await impostor.post("/sign-in", data={"link": first})).status_code == 303
    assert (await impostor.get("/api/session")).status_code == 200
    owner = await people.sign_in(server.start.owner_id)
    token = secret_of((await owner.post("/api/users", json={"email": "bob@example.com"})).json()["url"])
    refused = await bob.post("/api/me/invitations/accept", json={"token": token})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "password")
    accepted = await bob.post("/api/me/invitations/accept", json={"token": token, "current_password": PASSWORD})
    assert accepted.status_code == 200, accepted.text
    assert (await bob.get("/api/session")).status_code == 200
    assert (await impostor.get("/api/session")).status_code == 401
    assert (await impostor.post("/sign-in", data={"link": spare})).status_code == 401


async def test_invitations_are_withdrawn_declined_and_run_out(database: Database, clock: MovableClock) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(database, clock=clock))
        people = People(server, stack)
        other = await server.another_tenant()
        guest = await people.sign_in(await people.add("guest@example.com", tenant=other), other)
        owner = await people.sign_in(server.start.owner_id)

        async def invite() -> dict[str, Any]:
            made: dict[str, Any] = (await owner.post("/api/users", json={"email": "guest@example.com"})).json()
            return made

        async def accept(invited: dict[str, Any]) -> str:
            answer = await guest.post("/api/me/invitations/accept", json={"token": secret_of(invited["url"])})
            assert answer.status_code == 409, answer.text
            return str(answer.json()["error"]["message"])

        first, second = await invite(), await invite()
        assert "withdrawn on" in await accept(first)
        assert (await guest.post(f"/api/me/invitations/{second['id']}/decline")).status_code == 204
        assert "declined on" in await accept(second)
        assert (await guest.post(f"/api/me/invitations/{second['id']}/decline")).status_code == 404
        third = await invite()
        assert (await guest.delete(f"/api/invitations/{third['id']}")).status_code == 403
        assert (await owner.delete(f"/api/invitations/{third['id']}")).status_code == 204
        assert "withdrawn on" in await accept(third)
        fourth = await invite()
        clock.advance(seconds=7 * 24 * 3600 + 1)
        assert "ran out on" in await accept(fourth)
        assert (await owner.get("/api/invitations")).json()["items"] == []


async def test_an_admin_neither_makes_nor_opens_nor_unmakes_an_owner(people: People) -> None:
    server = people.server
    owner_id = server.start.owner_id
    admin = await people.sign_in(await people.add("admin@example.com", "admin"))
    member_id = await people.add("member@example.com")
    for attempt in (
        await admin.post("/api/users", json={"email": "x@example.com", "role": "owner"}),
        await admin.post(f"/api/users/{owner_id}/sign-in-link"),
        await admin.patch(f"/api/users/{owner_id}", json={"role": "member"}),
        await admin.patch(f"/api/users/{member_id}", json={"role": "owner"}),
        await admin.delete(f"/api/users/{owner_id}"),
    ):
        assert attempt.status_code == 403 and "owner" in attempt.json()["error"]["message"], attempt.text
    for forbidden in (
        await admin.put(f"/api/users/{owner_id}/password", json={"password": PASSWORD}),
        await admin.put(f"/api/users/{member_id}/password", json={"password": PASSWORD}),
    ):
        assert forbidden.status_code == 403 and "sign-in link" in forbidden.json()["error"]["message"]
    made = await admin.post(f"/api/users/{member_id}/sign-in-link")
    assert made.status_code == 201
    browser = await people.stranger()
    assert (await browser.post("/sign-in", data={"link": secret_of(made.json()["url"])})).status_code == 303
    assert (await browser.get("/api/session")).json()["user"]["id"] == member_id


async def test_a_link_or_invitation_dies_with_the_right_to_make_it(people: People) -> None:
    server = people.server
    admin_id = await people.add("admin@example.com", "admin")
    admin = await people.sign_in(admin_id)
    member_id = await people.add("member@example.com")

    async def link() -> str:
        return secret_of((await admin.post(f"/api/users/{member_id}/sign-in-link")).json()["url"])

    async def use(secret: str) -> httpx.Response:
        return await (await people.stranger()).post("/sign-in", data={"link": secret})

    kept = await link()
    token = secret_of((await admin.post("/api/users", json={"email": "x@example.com", "role": "admin"})).json()["url"])
    await server.services.identity.set_role(server.owner, admin_id, "member")
    promoted = await server.services.identity.set_role(server.owner, member_id, "admin")
    assert promoted.role == "admin"
    assert (await use(kept)).status_code == 401
    over = await (await people.stranger()).post("/join", data={"invitation": token})
    assert over.status_code == 409 and "no longer" in over.text


async def test_whoever_could_act_as_a_member_does_not_rise_with_them(people: People) -> None:
    member_id = await people.add("member@example.com")
    admin = await people.sign_in(await people.add("admin@example.com", "admin"))
    secret = secret_of((await admin.post(f"/api/users/{member_id}/sign-in-link")).json()["url"])
    impostor = await people.stranger()
    assert (await impostor.post("/sign-in", data={"link": secret})).status_code == 303
    await people.server.services.identity.set_role(people.server.owner, member_id, "owner")
    assert (await impostor.get("/api/session")).status_code == 401


async def test_removal_ends_sessions_links_invitations_and_rights_and_names_the_keys(people: People) -> None:
    server = people.server
    space = server.start.workspace_id
    admin_id = await people.add("admin@example.com", "admin")
    admin = await people.sign_in(admin_id)
    owner = await people.sign_in(server.start.owner_id)
    key = (await admin.post("/api/keys", json={"name": "theirs", "project_id": server.start.project_id})).json()
    await owner.put(f"/api/workspaces/{space}/admins/{admin_id}")
    invited = secret_of((await admin.post("/api/users", json={"email": "alt@example.com"})).json()["url"])
    link = secret_of((await owner.post(f"/api/users/{admin_id}/sign-in-link")).json()["url"])
    removed = await owner.delete(f"/api/users/{admin_id}")
    assert (removed.status_code, [each["id"] for each in removed.json()["keys"]]) == (200, [key["id"]])
    assert (await admin.get("/api/me")).status_code == 401
    assert (await (await people.stranger()).post("/sign-in", data={"link": link})).status_code == 401
    assert (await (await people.stranger()).post("/join", data={"invitation": invited})).status_code == 409
    assert (await owner.get(f"/api/workspaces/{space}/admins")).json()["user_ids"] == []
    await server.services.keys.authenticate(key["key"])


async def test_removal_can_stop_their_keys_and_those_that_their_keys_made(people: People) -> None:
    server = people.server
    admin_id = await people.add("admin@example.com", "admin")
    admin = await people.sign_in(admin_id)
    project = server.start.project_id
    first = await admin.post("/api/keys", json={"name": "a", "project_id": project, "scopes": ["management", "read"]})
    async with server.client(first.json()["key"]) as client:
        second = await client.post("/api/keys", json={"name": "b", "scopes": ["read"]})
    owner = await people.sign_in(server.start.owner_id)
    removed = await owner.delete(f"/api/users/{admin_id}", params={"revoke_keys": "true"})
    assert {each["id"] for each in removed.json()["keys"]} == {first.json()["id"], second.json()["id"]}
    for secret in (first.json()["key"], second.json()["key"]):
        with pytest.raises(Unauthenticated):
            await server.services.keys.authenticate(secret)


async def test_keys_never_make_or_change_people(people: People) -> None:
    server = people.server
    new = NewKey(name="root", kind="organization", scopes=frozenset(SCOPES), allow_destructive=True)
    root = await server.services.keys.create(server.owner, new)
    member_id = await people.add("member@example.com")
    space = server.start.workspace_id
    async with server.client(root.secret) as client:
        for attempt in (
            await client.post("/api/users", json={"email": "x@example.com", "role": "admin"}),
            await client.patch(f"/api/users/{member_id}", json={"role": "admin"}),
            await client.put(f"/api/users/{member_id}/password", json={"password": PASSWORD}),
            await client.post(f"/api/users/{member_id}/sign-in-link"),
            await client.delete(f"/api/users/{member_id}"),
            await client.put(f"/api/workspaces/{space}/admins/{member_id}"),
            await client.delete(f"/api/workspaces/{space}/admins/{member_id}"),
            await client.get("/api/invitations"),
            await client.get("/api/me/invitations"),
            await client.post("/api/me/invitations/accept", json={"token": "x"}),
            await client.patch("/api/me", json={"name": "x"}),
            await client.post("/api/organizations", json={"name": "x"}),
            await client.get("/api/session"),
            await client.put("/api/session", json={"organization_id": server.start.organization_id}),
        ):
            assert attempt.status_code == 403, f"{attempt.request.url}: {attempt.text}"
