"""The page of one's own name, password and look, for every person."""

from tests.support.server import TestServer


async def test_a_member_changes_name_password_and_look(sqlite_server: TestServer) -> None:
    member = await sqlite_server.services.identity.create_user(
        sqlite_server.owner, email="mo@example.com", name="Mo", password="a long password"
    )
    async with await sqlite_server.browser(member.id) as mo:
        assert (await mo.post("/settings/profile/name", data={"name": "<b>Mona"})).status_code == 303
        assert (await mo.post("/settings/profile/look", data={"theme": "dark", "language": "de"})).status_code == 303
        page = await mo.get("/settings/profile")
        assert "&lt;b&gt;Mona" in page.text and 'data-theme="dark"' in page.text and 'lang="de"' in page.text
        change = {"current": "wrong password", "password": "another long password"}
        assert (await mo.post("/settings/profile/password", data=change)).status_code in (400, 403, 422)
        change["current"] = "a long password"
        assert (await mo.post("/settings/profile/password", data=change)).status_code == 303
        assert (await mo.get("/settings/profile")).status_code == 200


async def test_single_keys_are_switched_off_and_on_again(sqlite_server: TestServer) -> None:
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        assert "data-keys" not in (await owner.get("/keys")).text
        await owner.post("/settings/profile/look", data={"theme": "", "language": "en"})
        assert 'data-keys="off"' in (await owner.get("/keys")).text
        await owner.post("/settings/profile/look", data={"theme": "", "language": "en", "single_keys": "1"})
        assert "data-keys" not in (await owner.get("/keys")).text


async def test_somebody_signs_out_everywhere_else(sqlite_server: TestServer) -> None:
    owner_id = sqlite_server.start.owner_id
    async with await sqlite_server.browser(owner_id) as here, await sqlite_server.browser(owner_id) as elsewhere:
        page = (await here.get("/settings/profile")).text
        assert page.count("this browser</span>") == 1 and "Sign out everywhere else" in page
        assert (await here.post("/settings/profile/sessions")).status_code == 303
        assert (await elsewhere.get("/")).headers["location"] == "/sign-in"
        assert "Sign out everywhere else" not in (await here.get("/settings/profile")).text


async def test_somebody_of_two_organizations_goes_from_one_to_the_other(sqlite_server: TestServer) -> None:
    identity = sqlite_server.services.identity
    other = await identity.create_organization(sqlite_server.owner, "Second team")
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        assert "Second team" in (await owner.get("/settings/profile")).text
        await owner.post("/settings/profile/organization", data={"organization_id": other.id})
        assert "Second team" in (await owner.get("/settings/profile")).text.partition("<main")[0]
        foreign = await owner.post("/settings/profile/organization", data={"organization_id": "org_none"})
        assert foreign.status_code == 404
