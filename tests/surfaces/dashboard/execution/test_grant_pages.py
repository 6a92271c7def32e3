"""The page of grants: given and ended by who administers the workspace, read by everybody else."""

from collections.abc import AsyncIterator, Sequence

import pytest

from holdfast.features.agents.definitions.model import NewAgent
from holdfast.features.agents.definitions.service import AgentDefinitions
from holdfast.features.execution.model import PermissionGrant
from holdfast.features.execution.policies.grants import Grants
from holdfast.storage.sqlite import SqliteDatabase
from tests.support.pages.dashboard import people
from tests.support.server import TestServer, serving

PAGE = "/w/default/settings/grants"
FORM = {"subject_type": "key", "subject_id": "key_1", "what": "tool", "name": "demo.count", "scope": "persistent"}


@pytest.fixture
async def server(sqlite_database: SqliteDatabase) -> AsyncIterator[TestServer]:
    async with serving(sqlite_database) as running:
        yield running


async def _given(server: TestServer) -> Sequence[PermissionGrant]:
    return await server.services[Grants].list(server.owner, server.start.workspace_id)


@pytest.mark.contract("XA-7")
async def test_a_grant_is_given_for_a_time_shown_and_ended(server: TestServer) -> None:
    async with await server.browser(server.start.owner_id) as owner:
        assert "No grant holds" in (await owner.get(PAGE)).text
        assert (await owner.post(PAGE, data=FORM | {"days": "7"})).status_code == 303
        (grant,) = await _given(server)
        assert (grant.subject_type, grant.subject_id, grant.scope) == ("key", "key_1", "persistent")
        assert grant.details == {"tool": "demo.count"} and grant.expires_at is not None
        # The form reads the clock before the grant does.
        assert 0 <= grant.created_at + 7 * 86_400_000 - grant.expires_at < 60_000
        page = (await owner.get(PAGE)).text
        assert "key_1" in page and "demo.count" in page and f"{PAGE}/{grant.id}/end" in page
        assert (await owner.post(f"{PAGE}/{grant.id}/end")).status_code == 303
        assert not await _given(server)
        assert (await owner.post(f"{PAGE}/{grant.id}/end")).status_code == 404


@pytest.mark.parametrize(
    ("what", "details", "kind"),
    [("scope", {"scope": "linear.write"}, "tool_scope"), ("agent", {"agent": "{id}"}, "spawn")],
)
async def test_what_is_granted_is_what_was_chosen(
    server: TestServer, what: str, details: dict[str, str], kind: str
) -> None:
    new = NewAgent(name="Writer", slug="writer")
    agent = await server.services[AgentDefinitions].create(server.owner, server.start.workspace_id, new)
    async with await server.browser(server.start.owner_id) as owner:
        name = "writer" if what == "agent" else "linear.write"
        chosen = FORM | {"what": what, "name": name, "scope": "once"}
        assert (await owner.post(PAGE, data=chosen)).status_code == 303
    (grant,) = await _given(server)
    expected = {key: value.format(id=agent.id) for key, value in details.items()}
    assert (grant.details, grant.grant_type, grant.scope, grant.expires_at) == (expected, kind, "once", None)


async def test_a_grant_for_nobody_or_for_nothing_is_refused_beside_its_field(server: TestServer) -> None:
    async with await server.browser(server.start.owner_id) as owner:
        for field in ("subject_id", "name"):
            refused = await owner.post(PAGE, data=FORM | {field: " "})
            assert refused.status_code == 422 and f'id="wrong-{field}"' in refused.text
    assert not await _given(server)


async def test_a_member_reads_grants_and_gives_and_ends_none(server: TestServer) -> None:
    ids = await people(server)
    async with await server.browser(ids["workspace admin"]) as admin:
        assert (await admin.post(PAGE, data=FORM)).status_code == 303
    (grant,) = await _given(server)
    async with await server.browser(ids["member"]) as member:
        page = await member.get(PAGE)
        assert page.status_code == 200 and "demo.count" in page.text and "Give the grant" not in page.text
        assert (await member.post(PAGE, data=FORM | {"name": "demo.wipe"})).status_code == 403
        assert (await member.post(f"{PAGE}/{grant.id}/end")).status_code == 403
    assert await _given(server) == [grant]
