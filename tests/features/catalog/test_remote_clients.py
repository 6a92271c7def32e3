"""Saving a remote server finds out where people sign in there; who is signed in is shown; a new master key keeps it."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Forbidden, Invalid
from holdfast.core.principal import Principal
from holdfast.engines.master_key import FILE, NEXT_FILE
from holdfast.engines.mcp_client.oauth import AuthServer, Login, OAuthClient
from holdfast.features.cases.proofs.keys import SigningKeys
from holdfast.features.catalog.model import CatalogEntry, NewEntry
from holdfast.features.catalog.servers.address import PublicAddress
from holdfast.features.catalog.servers.kept_logins import KeptLogins
from holdfast.features.catalog.servers.logins import RemoteLogins
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.catalog.snippets.importing import SnippetImport
from holdfast.features.secrets.service import Secrets
from holdfast.storage.database import Database
from tests.fakes.mcp.behind_login import METADATA, RESOURCE, BehindLogin, behind_login
from tests.support.pages.dashboard import people
from tests.support.server import TestServer, serving

SERVER = AuthServer("https://id.example", "https://id.example/a", "https://id.example/t", None, "https://x", "", True)


def a_login(*, seconds: float = 600, renewable: bool = True) -> Login:
    client = OAuthClient("us", "very-secret", "client_secret_post")
    return Login(SERVER, client, "token-1", "again" if renewable else None, time.time() + seconds, "tools")


@dataclass
class Shelf:
    server: TestServer
    remote: BehindLogin

    async def register(self, principal: Principal | None = None, **spec: Any) -> CatalogEntry:
        new = NewEntry(**{"name": "remote", "shape": "remote", "url": f"{self.remote.url}/mcp", **spec})
        catalog = self.server.services[ServerCatalog]
        return await catalog.register(principal or self.server.owner, self.server.start.workspace_id, new)


@pytest.fixture
async def shelf(database: Database) -> AsyncIterator[Shelf]:
    async with behind_login() as remote, serving(database, fetch_allow=(remote.place,)) as server:
        yield Shelf(server, remote)


@pytest.mark.contract("XA-8")
async def test_saving_a_server_that_wants_a_login_registers_there_once_and_people_sign_in_as_that(
    shelf: Shelf,
) -> None:
    entry = await shelf.register()
    assert shelf.remote.asked["POST /register"] == 1 and shelf.remote.asked[f"GET {METADATA}"] == 1
    ada = replace(shelf.server.owner, actor=shelf.server.start.owner_id, proof="session")
    begun = await shelf.server.services[RemoteLogins].begin(ada, entry.id)
    assert begun.startswith(f"{shelf.remote.url}/authorize?") and "client_id=us" in begun
    assert shelf.remote.asked["POST /register"] == 1 and shelf.remote.asked[f"GET {RESOURCE}"] == 1


async def test_an_address_of_ours_that_is_new_is_registered_before_anybody_signs_in(shelf: Shelf) -> None:
    entry = await shelf.register()
    shelf.server.services[PublicAddress].url = "https://moved.example"
    ada = replace(shelf.server.owner, actor=shelf.server.start.owner_id, proof="session")
    for _ in range(2):
        begun = await shelf.server.services[RemoteLogins].begin(ada, entry.id)
        assert "moved.example" in begun
    assert shelf.remote.asked["POST /register"] == 2


async def test_a_server_that_lets_everybody_in_is_saved_without_asking_for_more(shelf: Shelf) -> None:
    shelf.remote.is_open = True
    await shelf.register()
    assert dict(shelf.remote.asked) == {"POST /mcp": 1}


async def test_a_server_with_its_own_credential_is_not_asked(shelf: Shelf) -> None:
    await shelf.register(headers={"Authorization": "Bearer plain"})
    assert not shelf.remote.asked


@pytest.mark.parametrize(
    ("path", "document", "told"),
    [
        (METADATA, None, "publishes no metadata"),
        (RESOURCE, {"resource": "https://other.example/mcp", "authorization_servers": ["https://x"]}, "somebody else"),
        (RESOURCE, {"resource": "URL/mcp", "authorization_servers": ["https://10.0.0.1"]}, "may not be fetched"),
        (METADATA, {"issuer": "https://evil.example"}, "names 'https://evil.example' instead"),
        (METADATA, {"registration_endpoint": None}, "registers no clients"),
        (METADATA, {"registration_endpoint": "http://10.0.0.1/r"}, "not https"),
    ],
)
async def test_a_login_that_can_never_be_had_is_said_beside_the_address_and_nothing_is_saved(
    shelf: Shelf, path: str, document: dict[str, Any] | None, told: str
) -> None:
    known = shelf.remote.documents.pop(path)
    if document is not None:
        said = {**known, **document} if path == METADATA else document
        shelf.remote.documents[path] = {
            name: value.replace("URL", shelf.remote.url) if isinstance(value, str) else value
            for name, value in said.items()
        }
    with pytest.raises(Invalid) as refused:
        await shelf.register()
    (wrong,) = refused.value.fields
    assert wrong.field == "url" and told in wrong.message and "headers" in wrong.message
    workspace = shelf.server.start.workspace_id
    assert not await shelf.server.services[ServerCatalog].list(shelf.server.owner, workspace)
    snippet = {"mcpServers": {"remote": {"url": f"{shelf.remote.url}/mcp"}}}
    with pytest.raises(Invalid):
        await shelf.server.services[SnippetImport].run(shelf.server.owner, workspace, snippet)


async def test_a_private_address_is_refused_at_save_and_one_that_does_not_answer_is_not(shelf: Shelf) -> None:
    with pytest.raises(Invalid) as refused:
        await shelf.register(url="https://10.0.0.1/mcp")
    assert [each.field for each in refused.value.fields] == ["url"]
    # Nothing listens there; it may be started after us.
    host, _, _ = shelf.remote.place.partition(":")
    with pytest.raises(Invalid):
        await shelf.register(url=f"http://{host}:1/mcp")
    await shelf.register(url="https://nowhere.invalid/mcp")


async def test_who_may_not_register_a_server_has_us_ask_none(shelf: Shelf) -> None:
    member = replace(shelf.server.owner, actor=(await people(shelf.server))["member"], role="member")
    with pytest.raises(Forbidden):
        await shelf.register(replace(member, proof="session"))
    assert not shelf.remote.asked


@pytest.mark.contract("XA-8")
async def test_an_admin_sees_who_is_signed_in_and_who_has_to_again_and_others_their_own_login(shelf: Shelf) -> None:
    shelf.remote.is_open = True
    entry = await shelf.register()
    users = await people(shelf.server)
    kept = shelf.server.services[KeptLogins]
    await kept.save(entry.id, shelf.server.start.owner_id, a_login())
    await kept.save(entry.id, users["member"], a_login(seconds=-5, renewable=False))
    await kept.save(entry.id, users["admin"], a_login())
    await kept.end(entry.id, users["admin"])
    path = f"/api/workspaces/{shelf.server.start.workspace_id}/mcp-servers/remote/logins"
    async with await shelf.server.browser(shelf.server.start.owner_id) as owner:
        answered = await owner.get(path)
        shown = {each["user_id"]: each for each in answered.json()["items"]}
        assert {id: each["needs_login"] for id, each in shown.items()} == {
            shelf.server.start.owner_id: False,
            users["member"]: True,
            users["admin"]: True,
        }
        hers = shown[shelf.server.start.owner_id]
        assert hers["issuer"] == "https://id.example" and hers["expires_at"] and hers["renewable"]
        assert hers["login_url"].endswith(f"/connect/{entry.id}") and "very-secret" not in answered.text
        page = await owner.get("/w/default/settings/mcp-servers/remote")
        assert page.text.count("has to sign in again") == 2 and "connected" in page.text
        assert (await owner.post("/w/default/settings/mcp-servers/remote/disconnect")).status_code == 303
        assert len((await owner.get(path)).json()["items"]) == 2
    async with await shelf.server.browser(users["member"]) as member:
        assert [each["user_id"] for each in (await member.get(path)).json()["items"]] == [users["member"]]


@pytest.mark.parametrize("killed", [False, True])
async def test_a_login_and_a_signing_key_from_before_a_new_master_key_work_after_it(
    database: Database, tmp_path: Path, killed: bool
) -> None:
    """Killed at the worst moment: every row is under the new key, and the new key is not in its place yet."""
    async with behind_login() as remote:
        settings: dict[str, Any] = {"fetch_allow": (remote.place,), "data_dir": tmp_path, "secrets_master_key": None}
        async with serving(database, **settings) as before:
            before.services[PublicAddress].url = "https://holdfast.example"
            entry = await Shelf(before, remote).register()
            user = before.start.owner_id
            await before.services[KeptLogins].save(entry.id, user, a_login())
            signing = (await before.services[SigningKeys].current()).id
            old = (tmp_path / FILE).read_text()
            await before.services[Secrets].change_master_key(before.owner)
            assert (tmp_path / FILE).read_text() != old
            if killed:
                (tmp_path / FILE).replace(tmp_path / NEXT_FILE)
                (tmp_path / FILE).write_text(old)
        async with serving(database, **settings) as after:
            after.services[PublicAddress].url = "https://holdfast.example"
            kept = after.services[KeptLogins]
            assert (await kept.load(entry.id, user) or pytest.fail("no login")).access_token == "token-1"
            assert (await after.services[SigningKeys].current()).id == signing
            ada = replace(after.owner, actor=user, proof="session")
            assert "client_id=us" in await after.services[RemoteLogins].begin(ada, entry.id)
            assert remote.asked["POST /register"] == 1
            await kept.save(entry.id, "usr_later", a_login())
            await after.services[Secrets].change_master_key(after.owner)
            assert await kept.load(entry.id, user) and await kept.load(entry.id, "usr_later")
            keys = await database.read(lambda tx: {str(row["key_id"]) for row in tx.all("SELECT * FROM mcp_login")})
            assert len(keys) == 1 and not (tmp_path / NEXT_FILE).exists()
