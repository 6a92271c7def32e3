"""The page of a workspace's switches for tool calls: what it shows, what is refused beside its field, and who may."""

from collections.abc import AsyncIterator

import httpx
import pytest

from holdfast.features.execution.model import ExecutionSetting
from holdfast.features.execution.settings import ExecutionSettings
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.pages.dashboard import people
from tests.support.server import TestServer, serving

PAGE = "/w/default/settings/execution"


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database) as running:
        yield running


@pytest.fixture
async def owner(server: TestServer) -> AsyncIterator[httpx.AsyncClient]:
    async with await server.browser(server.start.owner_id) as client:
        yield client


async def setting(server: TestServer) -> ExecutionSetting:
    return await server.services[ExecutionSettings].get(server.owner, server.start.workspace_id)


@pytest.mark.contract("XA-9")
async def test_switches_are_off_until_an_admin_sets_them_and_what_is_left_out_is_off_again(
    server: TestServer, owner: httpx.AsyncClient
) -> None:
    assert " checked" not in (await owner.get(PAGE)).text
    await server.services.secrets.set(server.owner, server.start.workspace_id, "HOOK_KEY", "s3cret-value")
    wanted = {
        "log_arguments": "on",
        "sampling_approvals": "on",
        "webhook_url": "https://hooks.example.com/x",
        "webhook_secret": "HOOK_KEY",
    }
    assert (await owner.post(PAGE, data=wanted)).status_code == 303
    assert await setting(server) == ExecutionSetting(True, True, "https://hooks.example.com/x", "HOOK_KEY")
    shown = (await owner.get(PAGE)).text
    assert shown.count(" checked") == 2 and "https://hooks.example.com/x" in shown and "s3cret-value" not in shown
    assert (await owner.post(PAGE, data={"log_arguments": "on"})).status_code == 303
    assert await setting(server) == ExecutionSetting(log_arguments=True)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"webhook_url": "ftp://hooks.example.com"}, "webhook_url"),
        ({"webhook_secret": "HOOK_KEY"}, "webhook_secret"),
        ({"webhook_url": "https://hooks.example.com", "webhook_secret": "NONE_SUCH"}, "webhook_secret"),
    ],
)
async def test_what_is_wrong_is_said_beside_its_field_and_changes_nothing(
    server: TestServer, owner: httpx.AsyncClient, given: dict[str, str], field: str
) -> None:
    wrong = await owner.post(PAGE, data={"log_arguments": "on", **given})
    assert wrong.status_code == 422 and f'id="wrong-{field}"' in wrong.text and " checked" in wrong.text
    assert await setting(server) == ExecutionSetting()


async def test_a_member_sees_the_switches_and_changes_none(server: TestServer) -> None:
    async with await server.browser((await people(server))["member"]) as member:
        shown = (await member.get(PAGE)).text
        assert f'action="{PAGE}"' not in shown and "An admin of the workspace can change this" in shown
        assert (await member.post(PAGE, data={"log_arguments": "on"})).status_code == 403
    assert await setting(server) == ExecutionSetting()
