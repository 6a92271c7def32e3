"""Remote servers behind OAuth: a person signs in once, calls and their keys act as them, also after a restart."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest

from holdfast.engines.mcp_client.base import LoginNeeded
from holdfast.features.catalog.model import NewEntry, ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.servers.address import PublicAddress
from holdfast.features.catalog.servers.logins import RemoteLogins
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.execution.model import InvocationRequest
from holdfast.features.execution.service import Execution
from holdfast.features.identity.model import NewKey
from holdfast.features.identity.standing import principal_of
from holdfast.storage.sqlite import SqliteDatabase
from tests.engines.mcp_client import test_remote
from tests.engines.mcp_client.test_remote import Behind, behind
from tests.support.server import serving

__all__ = ["behind"]
HOME = "https://holdfast.example"


@pytest.mark.slow
@pytest.mark.contract("XA-8")
async def test_a_person_signs_in_once_and_their_keys_call_as_them_also_after_a_restart(
    sqlite_path: Path, behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_remote, "BACK", f"{HOME}/connect/callback")
    allowed = tuple(urlsplit(each).netloc for each in (behind.issuer, behind.resource))
    database = SqliteDatabase(sqlite_path)
    async with serving(database, fetch_allow=allowed) as server:
        server.services[PublicAddress].url = HOME
        services, workspace = server.services, server.start.workspace_id
        ada = replace(server.owner, actor=server.start.owner_id, proof="session")
        entry = await services[ServerCatalog].register(
            server.owner, workspace, NewEntry(name="remote", shape="remote", url=behind.resource)
        )
        with pytest.raises(LoginNeeded) as needed:
            await services[ToolPins].probe(ada, workspace, "remote")
        assert needed.value.url == f"{HOME}/connect/{entry.id}"
        async with await server.browser(server.start.owner_id) as browser:
            begun = await browser.get(f"/connect/{entry.id}")
            assert begun.status_code == 303 and begun.headers["location"].startswith(behind.issuer)
            back = await test_remote.sign_in(begun.headers["location"], "ada")
            done = await browser.get(f"/connect/callback?{urlencode(back)}")
            assert done.status_code == 303
            again = await browser.get(f"/connect/callback?{urlencode(back)}")
            assert "not%20begun" in again.headers["set-cookie"]
        assert await services[RemoteLogins].connected(ada, entry.id) == [ada.actor]
        probed = await services[ToolPins].probe(ada, workspace, "remote")
        assert [tool.xem_name for tool in probed.tools] == ["remote.whoami"]
        await services[ToolPins].set(server.owner, workspace, "remote", "whoami", ToolChange(policy="auto"))
        new = NewKey(name="hers", project_id=server.start.project_id, scopes=frozenset({"inference"}))
        hers = principal_of((await services.keys.create(ada, new)).key)
        rows = await database.read(lambda tx: [dict(row) for row in tx.all("SELECT * FROM mcp_login")])
        assert len(rows) == 1 and b"access_token" not in bytes(rows[0]["ciphertext"])
    async with serving(database, fetch_allow=allowed) as server:
        for who, status in ((hers, "succeeded"), (server.owner, "failed")):
            request = InvocationRequest(
                principal=who, workspace_id=workspace, tool_name="remote.whoami", arguments={}, source="mcp"
            )
            asked = (await server.services[Execution].invoke(request)).invocation
            ended = await server.services[Execution].wait(
                server.owner, workspace, asked.id, seconds=30, until=lambda now: now.finished
            )
            assert ended.status == status, ended.error
            if status == "succeeded":
                assert ended.result is not None and ended.result["content"][0]["text"] == "ada"
            else:
                assert ended.error is not None and ended.error["code"] == "login_needed"
    await database.close()
