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
