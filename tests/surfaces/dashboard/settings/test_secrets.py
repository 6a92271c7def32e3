"""The page of secrets: three states, who may change them, and that no value ever comes back."""

import pytest

from tests.support.server import TestServer

_CANARY = "canary-7f3a-value-that-no-page-shows"


async def _url(server: TestServer) -> str:
    return f"/w/{server.start.workspace_id}/settings/secrets"


@pytest.mark.contract("XA-10")
async def test_a_secret_is_set_replaced_and_cleared_and_its_value_never_comes_back(sqlite_server: TestServer) -> None:
    url = await _url(sqlite_server)
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        empty = await owner.get(url)
        kept = await owner.post(url, data={"name": "API_TOKEN", "value": _CANARY, "hosts": "api.example.com"})
        shown = await owner.get(url)
        replacing = await owner.get(url + "?replace=API_TOKEN")
        wrong = await owner.post(url, data={"name": "not a name", "value": _CANARY})
        cleared = await owner.post(url + "/API_TOKEN/clear")
        unset = await owner.get(url)
    answers = (empty, kept, shown, replacing, wrong, cleared, unset)
    assert all(_CANARY not in each.text and _CANARY not in str(each.headers) for each in answers)
    assert "No secret yet" in empty.text and kept.status_code == 303
    assert "api.example.com" in shown.text and "Replace" in shown.text and "New value" not in shown.text
    assert "New value — saved on submit" in replacing.text and "Cancel" in replacing.text
    assert wrong.status_code == 422 or wrong.status_code == 400
    assert "not set" in unset.text and "Replace" not in unset.text
    assert "•" not in shown.text and "***" not in shown.text and 'type="password"' not in shown.text


async def test_members_read_names_only_and_a_workspaces_own_admin_may_set(sqlite_server: TestServer) -> None:
    url = await _url(sqlite_server)
    services = sqlite_server.services
    member = await services.identity.create_user(sqlite_server.owner, email="mo@example.com", name="Mo")
    data = {"name": "TOKEN", "value": _CANARY}
    async with await sqlite_server.browser(member.id) as mo:
        page = await mo.get(url)
        assert page.status_code == 200 and "Add a secret" not in page.text
        assert (await mo.post(url, data=data)).status_code == 403
        await services.workspaces.set_admin(
            sqlite_server.owner, sqlite_server.start.workspace_id, member.id, admin=True
        )
        assert "Add a secret" in (await mo.get(url)).text
        assert (await mo.post(url, data=data)).status_code == 303
        assert (await mo.post(url, data=data, headers={"X-CSRF-Token": ""})).status_code == 403


async def test_another_tenants_workspace_has_no_secrets_page(sqlite_server: TestServer) -> None:
    other = await sqlite_server.another_tenant()
    async with await sqlite_server.browser(sqlite_server.start.owner_id) as owner:
        assert (await owner.get(f"/w/{other.workspace_id}/settings/secrets")).status_code == 404
