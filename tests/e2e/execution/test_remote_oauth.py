"""A remote server behind a real authorization server, through a started Holdfast: logins, their end, and lies."""

import asyncio
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pytest

from tests.engines.mcp_client import test_remote
from tests.engines.mcp_client.test_remote import METADATA, RESOURCE, Behind, Lies, behind, honest, lies, sign_in
from tests.support.execution.product import Product, product
from tests.surfaces.mcp.harness import ERAS

__all__ = ["behind", "lies"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def link_of(person: httpx.AsyncClient, at: Product, name: str) -> str:
    """The link that a person is given who is not signed in at a remote server."""
    answer = await person.post(f"/api/workspaces/{at.workspace}/mcp-servers/{name}/probe")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (502, "login_needed"), answer.text
    link = str(error["message"]).rpartition(" ")[2]
    assert link.startswith(f"{at.url}/connect/"), error
    return link


async def connect(person: httpx.AsyncClient, at: Product, link: str, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """A person opens the link and signs in at the authorization server; what they come back with."""
    patch.setattr(test_remote, "BACK", f"{at.url}/connect/callback")
    begun = await person.get(link)
    assert begun.status_code == 303, begun.text
    return await sign_in(begun.headers["location"], "ada")


async def keys_of(person: httpx.AsyncClient, at: Product, number: int) -> list[str]:
    """Keys that a person made: calls with them act as that person."""
    made: list[str] = []
    for index in range(number):
        new = {
            "name": f"key {index}",
            "project_id": at.told["project_id"],
            "tier": "exec",
            "scopes": ["inference", "read"],
        }
        answer = await person.post("/api/keys", json=new)
        assert answer.status_code == 201, answer.text
        made.append(answer.json()["key"])
    return made


async def called(at: Product, key: str) -> dict[str, Any]:
    return await at.ended((await at.invoke("remote.whoami", key))["invocation_id"], key)


async def test_a_login_is_renewed_once_for_twenty_callers_outlives_the_server_and_ends_with_a_link(
    tmp_path: Path, behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = ",".join(urlsplit(each).netloc for each in (behind.issuer, behind.resource))
    async with product(tmp_path / "data", HOLDFAST_FETCH_ALLOW=allowed) as at:
        await at.run("catalog", "add", "remote", "--url", behind.resource)
        async with at.person() as person:
            link = await link_of(person, at, "remote")
            back = await connect(person, at, link, monkeypatch)
            assert (await person.get(f"/connect/callback?{urlencode(back)}")).status_code == 303
            probe = await person.post(f"/api/workspaces/{at.workspace}/mcp-servers/remote/probe")
            assert [tool["name"] for tool in probe.json()["tools"]] == ["whoami"], probe.text
            await at.policy("remote", "whoami", policy="auto")
            keys = await keys_of(person, at, 22)
            # Signed in again, with a token that has run out when it is first used; what is given from then on lasts.
            await behind.tell("expire")
            back = await connect(person, at, link, monkeypatch)
            assert (await person.get(f"/connect/callback?{urlencode(back)}")).status_code == 303
            assert (await behind.tell("lasting"))["refreshes"] == 0
        ends = await asyncio.gather(*(called(at, key) for key in keys[:20]))
        assert {end["result"]["content"][0]["text"] for end in ends} == {"ada"}, ends
        assert (await behind.tell("count"))["refreshes"] == 1
        # The key that was there before anybody signed in acts for nobody.
        refused = (await called(at, at.key))["error"]
        assert refused["code"] == "login_needed" and "this key is nobody's" in refused["message"]

        await at.stop()
        await at.start()
        for era in ERAS:
            async with at.client(era, keys[0]) as client:
                answer = await client.call_tool("remote.whoami", {})
                assert not answer.is_error and answer.content[0].type == "text", answer
                assert answer.content[0].text == "ada"

        await behind.tell("revoke")
        ended = await called(at, keys[20])
        assert (ended["status"], ended["error"]["code"]) == ("failed", "login_needed"), ended
        assert ended["error"]["url"].startswith(f"{at.url}/connect/")
        async with at.client(ERAS[0], keys[21]) as client:
            answer = await client.call_tool("remote.whoami", {})
            assert answer.is_error and answer.content[0].type == "text"
            assert ended["error"]["url"] in answer.content[0].text, answer


@pytest.mark.contract("XA-8")
async def test_of_twenty_callers_over_two_servers_on_one_database_one_renews(
    tmp_path: Path, behind: Behind, monkeypatch: pytest.MonkeyPatch, empty_postgres_url: str
) -> None:
    allowed = ",".join(urlsplit(each).netloc for each in (behind.issuer, behind.resource))
    env = {
        "HOLDFAST_FETCH_ALLOW": allowed,
        "HOLDFAST_DATABASE_URL": empty_postgres_url,
        "WORKSPACE_SECRETS_MASTER_KEY": secrets.token_hex(32),
    }
    async with product(tmp_path / "one", **env) as one:
        await one.run("catalog", "add", "remote", "--url", behind.resource)
        async with one.person() as person:
            link = await link_of(person, one, "remote")
            back = await connect(person, one, link, monkeypatch)
            assert (await person.get(f"/connect/callback?{urlencode(back)}")).status_code == 303
            probe = await person.post(f"/api/workspaces/{one.workspace}/mcp-servers/remote/probe")
            assert probe.is_success, probe.text
            await one.policy("remote", "whoami", policy="auto")
            keys = await keys_of(person, one, 20)
            async with product(tmp_path / "two", **env) as two:
                two.key = one.key
                await behind.tell("expire")
                back = await connect(person, one, link, monkeypatch)
                assert (await person.get(f"/connect/callback?{urlencode(back)}")).status_code == 303
                before = (await behind.tell("lasting"))["refreshes"]
                # Whichever takes a call runs it; who asks for a direct look at the server gets it from the one asked.
                looks = [person.post(f"/api/workspaces/{one.workspace}/mcp-servers/remote/probe")]
                async with httpx.AsyncClient(base_url=two.url, timeout=120, cookies=person.cookies) as other:
                    other.headers["X-CSRF-Token"] = person.headers["X-CSRF-Token"]
                    looks.append(other.post(f"/api/workspaces/{one.workspace}/mcp-servers/remote/probe"))
                    calls = [called((one, two)[number % 2], key) for number, key in enumerate(keys)]
                    ends, found = await asyncio.gather(asyncio.gather(*calls), asyncio.gather(*looks))
                assert {end["status"] for end in ends} == {"succeeded"}, ends
                assert {end["result"]["content"][0]["text"] for end in ends} == {"ada"}
                assert all(look.is_success for look in found), [look.text for look in found]
                assert (await behind.tell("count"))["refreshes"] - before == 1


async def test_a_code_of_another_issuer_keeps_no_login(
    tmp_path: Path, behind: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = ",".join(urlsplit(each).netloc for each in (behind.issuer, behind.resource))
    async with product(tmp_path / "data", HOLDFAST_FETCH_ALLOW=allowed) as at, at.person() as person:
        await at.run("catalog", "add", "remote", "--url", behind.resource)
        link = await link_of(person, at, "remote")
        for wrong in ({"iss": "https://evil.example"}, {"state": "another"}, {"code": "stolen"}):
            back = await connect(person, at, link, monkeypatch)
            await person.get(f"/connect/callback?{urlencode({**back, **wrong})}")
            assert await link_of(person, at, "remote") == link


async def test_documents_that_lead_to_private_places_are_followed_nowhere(tmp_path: Path, lies: Lies) -> None:
    reached: list[str] = []

    async def reach(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append("somebody came")
        writer.close()

    inner = await asyncio.start_server(reach, "127.0.0.1", 0)
    private = f"127.0.0.1:{inner.sockets[0].getsockname()[1]}"
    allowed = urlsplit(lies.url).netloc
    async with inner, product(tmp_path / "data", HOLDFAST_FETCH_ALLOW=allowed) as at, at.person() as person:
        await at.run("catalog", "add", "lies", "--url", f"{lies.url}/mcp")
        lies.wants_login = True
        url = await link_of(person, at, "lies")
        for place in (f"http://{private}", f"https://{private}", "https://169.254.169.254", "https://10.0.0.1"):
            resource = {"resource": f"{lies.url}/mcp", "authorization_servers": [place]}
            lies.documents = {RESOURCE: resource, METADATA: honest(lies.url)}
            answer = await person.get(url)
            assert place not in answer.headers.get("location", ""), answer.headers
            lies.documents = {
                RESOURCE: {"resource": f"{lies.url}/mcp", "authorization_servers": [lies.url]},
                METADATA: {**honest(lies.url), "registration_endpoint": f"{place}/register"},
            }
            answer = await person.get(url)
            assert place not in answer.headers.get("location", ""), answer.headers
        mixed = {**honest("https://honest.example"), "token_endpoint": f"{lies.url}/token"}
        lies.documents = {
            RESOURCE: {"resource": f"{lies.url}/mcp", "authorization_servers": [lies.url]},
            METADATA: mixed,
        }
        assert "honest.example" not in (await person.get(url)).headers.get("location", "")
    assert reached == []
