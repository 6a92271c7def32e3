"""What people do with their own account: password, name, organizations, links and what is shown once."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from holdfast.storage.database import Database
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.clock import MovableClock
from tests.support.server import serving
from tests.surfaces.identity.people import PASSWORD, People, secret_of


async def test_ones_own_password_takes_the_current_one_and_ends_other_sessions(people: People) -> None:
    user_id = await people.add("ada@example.com", password=PASSWORD)
    here, there = await people.sign_in(user_id), await people.sign_in(user_id)
    path = f"/api/users/{user_id}/password"
    for body in ({"password": "another long one"}, {"password": "another long one", "current_password": "wrong"}):
        refused = await here.put(path, json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "password")
    changed = await here.put(path, json={"password": "another long one", "current_password": PASSWORD})
    assert changed.status_code == 204
    assert (await here.get("/api/session")).status_code == 200
    assert (await there.get("/api/session")).status_code == 401


async def test_people_name_themselves_and_nobody_else(few: People) -> None:
    user_id = await few.add("ada@example.com")
    ada = await few.sign_in(user_id)
    owner = await few.sign_in(few.server.start.owner_id)
    assert (await ada.patch("/api/me", json={"name": "Ada"})).json()["name"] == "Ada"
    assert (await owner.patch(f"/api/users/{user_id}", json={"name": "Eve"})).status_code == 422
    assert (await owner.get(f"/api/users/{user_id}")).json()["name"] == "Ada"


async def test_making_organizations_is_the_operators_unless_a_setting_allows_it(few: People) -> None:
    owner = await few.sign_in(few.server.start.owner_id)
    refused = await owner.post("/api/organizations", json={"name": "Mine"})
    assert refused.status_code == 403 and "HOLDFAST_ALLOW_ORGANIZATIONS" in refused.json()["error"]["message"]


async def test_whoever_makes_an_organization_owns_it(sqlite_database: SqliteDatabase) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(sqlite_database, allow_organizations=True))
        people = People(server, stack)
        member_id = await people.add("member@example.com")
        member = await people.sign_in(member_id)
        made = (await member.post("/api/organizations", json={"name": "Mine"})).json()
        moved = await member.put("/api/session", json={"organization_id": made["id"]})
        assert (moved.json()["role"], moved.json()["organization"]["name"]) == ("owner", "Mine")
        # What the review did next: attach the victim's account to it and set its password.
        victim_id = server.start.owner_id
        invited = await member.post("/api/users", json={"email": "owner@localhost.example", "role": "member"})
        assert invited.status_code == 201
        for attempt in (
            await member.get(f"/api/users/{victim_id}"),
            await member.put(f"/api/users/{victim_id}/password", json={"password": PASSWORD}),
            await member.post(f"/api/users/{victim_id}/sign-in-link"),
        ):
            assert attempt.status_code == 404


async def test_a_session_gives_a_page_its_token(few: People) -> None:
    ada = await few.sign_in(await few.add("ada@example.com"))
    shown = await ada.get("/api/session")
    assert shown.headers["cache-control"] == "no-store"
    assert shown.json()["user"]["email"] == "ada@example.com" and shown.json()["role"] == "member"
    assert shown.json()["organization"]["name"] == "My team" and shown.json()["expires_at"]
    del ada.headers["X-CSRF-Token"]
    renamed = {"name": "Ada"}
    assert (await ada.patch("/api/me", json=renamed)).status_code == 403
    token = shown.json()["csrf_token"]
    assert (await ada.patch("/api/me", json=renamed, headers={"X-CSRF-Token": token})).status_code == 200
    stranger = await few.stranger()
    assert (await stranger.get("/api/session")).status_code == 401


async def test_a_link_says_that_it_was_used_expired_or_is_unknown_and_opening_it_does_not_use_it(
    sqlite_database: SqliteDatabase, clock: MovableClock
) -> None:
    async with serving(sqlite_database, clock=clock) as server, server.stranger() as browser:
        secret = await server.link(server.start.owner_id)
        for _ in range(3):
            opened = await browser.get("/sign-in", params={"link": secret})
            assert opened.status_code == 200 and "works once" in opened.text
        assert (await browser.post("/sign-in", data={"link": secret})).status_code == 303
        browser.cookies.clear()
        late = await server.link(server.start.owner_id)
        clock.advance(seconds=3601)
        for given, says in ((secret, "was used on"), (late, "expired on"), ("invented", "is unknown")):
            for answer in (
                await browser.post("/sign-in", data={"link": given}),
                await browser.get("/sign-in", params={"link": given}),
            ):
                assert answer.status_code == 401 and says in answer.text
                assert "set-cookie" not in answer.headers


async def test_guessing_ones_password_from_a_session_is_limited(sqlite_database: SqliteDatabase) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(sqlite_database, sign_ins_per_minute=3))
        people = People(server, stack)
        user_id = await people.add("ada@example.com", password=PASSWORD)
        ada = await people.sign_in(user_id)
        guesses = [
            await ada.put(f"/api/users/{user_id}/password", json={"password": "a" * 12, "current_password": f"no {n}"})
            for n in range(5)
        ]
        assert [each.status_code for each in guesses] == [403, 403, 403, 429, 429]
        token = {"token": "invented", "current_password": PASSWORD}
        assert (await ada.post("/api/me/invitations/accept", json=token)).status_code == 429


@pytest.mark.parametrize("made", ["key", "invitation", "link"])
async def test_a_secret_that_is_shown_once_is_not_kept_for_a_repeated_request(few: People, made: str) -> None:
    server = few.server
    owner = await few.sign_in(server.start.owner_id)
    member_id = await few.add("member@example.com")
    path, body = {
        "key": ("/api/keys", {"name": "once", "project_id": server.start.project_id}),
        "invitation": ("/api/users", {"email": "x@example.com"}),
        "link": (f"/api/users/{member_id}/sign-in-link", None),
    }[made]
    first, again = [await owner.post(path, json=body, headers={"Idempotency-Key": "same"}) for _ in range(2)]
    assert first.status_code == 201
    assert (again.status_code, again.json()["error"]["code"]) == (409, "secret_shown")
    secret = first.json()["key"] if made == "key" else secret_of(first.json()["url"])
    rows = await server.services.database.read(lambda tx: tx.all("SELECT body FROM idempotent_request"))
    assert rows and secret not in str([row["body"] for row in rows])


async def test_the_connect_page_makes_a_bundle_with_its_own_token_only(few: People) -> None:
    owner = await few.sign_in(few.server.start.owner_id)
    home = (await owner.get("/w/default/connect")).text
    assert 'action="/client-bundle"' in home and owner.headers["X-CSRF-Token"] in home
    form = {"workspace": few.server.start.workspace_id, "client": "cursor", "tier": "core"}
    refused = await owner.post("/client-bundle", data=form)
    assert refused.status_code == 403 and "reload" in refused.text
    assert (await owner.get("/client-bundle", params=form)).status_code == 405
    made = await owner.post("/client-bundle", data={**form, "csrf": owner.headers["X-CSRF-Token"]})
    assert (made.status_code, made.headers["content-type"]) == (200, "application/zip")
    member = await few.sign_in(await few.add("member@example.com"))
    assert "/client-bundle" not in (await member.get("/w/default/connect")).text
    unfit = await member.post("/client-bundle", data={**form, "csrf": member.headers["X-CSRF-Token"]})
    assert unfit.status_code == 403
    stranger = await few.stranger()
    assert (await stranger.post("/client-bundle", data=form)).headers["location"] == "/sign-in"


async def test_a_link_and_an_invitation_work_once_however_many_come_at_once(
    database: Database, clock: MovableClock
) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(database, clock=clock, sign_ins_per_minute=1000))
        people = People(server, stack)
        link = await server.link(server.start.owner_id)
        invited = await server.services.invitations.invite(server.owner, email="new@example.com")
        browsers = [await people.stranger() for _ in range(6)]
        entered = await asyncio.gather(*(each.post("/sign-in", data={"link": link}) for each in browsers))
        assert sorted(each.status_code for each in entered) == [303, *[401] * 5]
        browsers = [await people.stranger() for _ in range(6)]
        joined = await asyncio.gather(*(each.post("/join", data={"invitation": invited.secret}) for each in browsers))
        assert sorted(each.status_code for each in joined) == [303, *[409] * 5], [each.text for each in joined]
        members = (await server.services.identity.users(server.owner)).items
        assert len(members) == 2
