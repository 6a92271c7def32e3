"""Remote MCP servers: both revisions of the protocol, one behind a real authorization server, and lies about them."""

import asyncio
import json
import os
import re
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import mcp_types
import pytest
import uvicorn
from mcp.server import Server
from mcp.server.context import ServerRequestContext

from holdfast.core.errors import HoldfastError
from holdfast.engines.fetch.network.guard import Guard
from holdfast.engines.mcp_client.base import CallNotTaken, LoginNeeded, ServerFailed
from holdfast.engines.mcp_client.exchanges import NotSignedIn, RemoteAuth
from holdfast.engines.mcp_client.oauth import Login, OAuthRefused, RemoteOAuth
from holdfast.engines.mcp_client.remote import open_remote

pytestmark = pytest.mark.slow

NODE = Path(__file__).parents[2] / "node"
BACK = "https://holdfast.example/oauth/callback"
LOGIN_URL = "https://holdfast.example/catalog/remote/connect"


class Kept:
    """A login as a feature keeps it: as bytes, so that what is lost on the way is noticed."""

    def __init__(self) -> None:
        self.text: bytes | None = None
        self._renewal = asyncio.Lock()

    async def load(self) -> Login | None:
        return None if self.text is None else Login.from_json(self.text)

    async def save(self, login: Login) -> None:
        self.text = login.to_json()

    def renewal(self) -> AbstractAsyncContextManager[None]:
        return self._renewal

    async def forget(self) -> None:
        self.text = None


@dataclass
class Behind:
    """The real pair: an authorization server and an MCP server behind it."""

    process: Process
    issuer: str
    resource: str
    guard: Guard
    oauth: RemoteOAuth
    store: Kept = field(default_factory=Kept)

    def auth(self) -> RemoteAuth:
        return RemoteAuth("remote", self.oauth, self.store, LOGIN_URL)

    async def tell(self, command: str) -> dict[str, int]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n".encode())
        return await said(self.process)


async def said(process: Process) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
    return found


@pytest.fixture
async def behind() -> AsyncIterator[Behind]:
    process = await asyncio.create_subprocess_exec(
        str(NODE / "node_modules" / ".bin" / "node"),
        str(NODE / "oauth_mcp.mjs"),
        stdin=PIPE,
        stdout=PIPE,
        env={"PATH": os.environ["PATH"], "NODE_OPTIONS": "--no-warnings"},
    )
    try:
        places = await said(process)
        guard = Guard(allow_private=[urlsplit(place).netloc for place in places.values()])
        yield Behind(process, places["issuer"], places["resource"], guard, RemoteOAuth(guard))
    finally:
        process.terminate()
        await process.wait()


async def sign_in(url: str, login: str) -> dict[str, str]:
    """What a person does in a browser; what the redirect back carries."""
    async with httpx.AsyncClient() as browser:
        answer = await browser.get(url)
        for _ in range(20):
            if answer.is_redirect:
                url = urljoin(str(answer.url), answer.headers["location"])
                if url.startswith(BACK):
                    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
                answer = await browser.get(url)
                continue
            assert answer.status_code == 200, answer.text
            action = re.search(r'<form[^>]*action="([^"]+)"', answer.text)
            prompt = re.search(r'name="prompt" value="(\w+)"', answer.text)
            assert action and prompt, answer.text
            form = {"prompt": prompt[1], "login": login, "password": "x"}
            answer = await browser.post(urljoin(str(answer.url), action[1]), data=form)
    raise AssertionError("the provider never sent the browser back")


async def signed_in(behind: Behind, login: str = "ada") -> None:
    with pytest.raises(NotSignedIn) as stopped:
        await open_remote(behind.guard, "remote", behind.resource)
    server = await behind.oauth.discover(behind.resource, stopped.value.challenge)
    client = await behind.oauth.register(server, BACK)
    begun = behind.oauth.begin(server, client, BACK)
    back = await sign_in(begun.url, login)
    assert back["state"] == begun.state
    await behind.store.save(await behind.oauth.finish(begun, back["code"], back.get("iss")))


async def test_a_person_signs_in_and_calls_as_themselves(behind: Behind) -> None:
    await signed_in(behind)
    connection = await open_remote(behind.guard, "remote", behind.resource, auth=behind.auth())
    described = await connection.describe()
    assert (described.server_info["name"], [tool.name for tool in described.tools]) == ("behind-oauth", ["whoami"])
    result = await connection.call("whoami", {})
    assert result.content == ({"type": "text", "text": "ada"},)
    await connection.close()
    assert connection.closed


async def test_without_a_login_the_caller_gets_a_link_for_a_person(behind: Behind) -> None:
    with pytest.raises(LoginNeeded) as needed:
        await open_remote(behind.guard, "remote", behind.resource, auth=behind.auth())
    assert needed.value.url == LOGIN_URL and LOGIN_URL in needed.value.message


async def test_an_expired_token_is_renewed_once_for_twenty_callers_also_after_a_restart(behind: Behind) -> None:
    await behind.tell("expire")
    await signed_in(behind)
    await behind.tell("lasting")
    # Nothing but the stored bytes is left of the first sign-in.
    auth = behind.auth()
    first = (await behind.store.load() or pytest.fail("no login")).access_token
    tokens = await asyncio.gather(*(auth.token() for _ in range(20)))
    assert len(set(tokens)) == 1 and tokens[0] != first
    connection = await open_remote(behind.guard, "remote", behind.resource, auth=auth)
    answers = await asyncio.gather(*(connection.call("whoami", {}) for _ in range(20)))
    assert {answer.content[0]["text"] for answer in answers} == {"ada"}
    assert (await behind.tell("count"))["refreshes"] == 1
    await connection.close()


async def test_a_revoked_login_ends_with_a_link_and_is_forgotten(behind: Behind) -> None:
    await signed_in(behind)
    connection = await open_remote(behind.guard, "remote", behind.resource, auth=behind.auth())
    await connection.describe()
    assert (await connection.call("whoami", {})).content[0]["text"] == "ada"
    await behind.tell("revoke")
    with pytest.raises(CallNotTaken) as needed:
        await connection.call("whoami", {})
    assert needed.value.url == LOGIN_URL and behind.store.text is None
    await connection.close()


async def test_a_code_from_another_issuer_is_not_exchanged(behind: Behind) -> None:
    server = await behind.oauth.discover(behind.resource)
    client = await behind.oauth.register(server, BACK)
    begun = behind.oauth.begin(server, client, BACK)
    back = await sign_in(begun.url, "ada")
    with pytest.raises(OAuthRefused, match="does not come from"):
        await behind.oauth.finish(begun, back["code"], "https://evil.example")
    if server.names_itself:
        with pytest.raises(OAuthRefused, match="does not come from"):
            await behind.oauth.finish(begun, back["code"], None)
    assert (await behind.oauth.finish(begun, back["code"], back.get("iss"))).access_token


class Lies:
    """A web server that says about itself whatever the test wants."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}
        self.asked: list[str] = []
        self.url = ""
        self.wants_login = False
        """Whether it says of what it does not know that nobody signed in."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ")[1]
        self.asked.append(path)
        found = self.documents.get(path)
        body = json.dumps(found).encode()
        unknown = "401 Unauthorized" if self.wants_login and path == "/mcp" else "404 Not Found"
        status = unknown if found is None else "200 OK"
        if isinstance(found, str):
            status = f"302 Found\r\nLocation: {found}"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()


@pytest.fixture
async def lies() -> AsyncIterator[Lies]:
    lies = Lies()
    server = await asyncio.start_server(lies.answer, "127.0.0.1", 0)
    lies.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield lies
    server.close()


RESOURCE = "/.well-known/oauth-protected-resource/mcp"
METADATA = "/.well-known/oauth-authorization-server"


def honest(url: str) -> dict[str, Any]:
    return {
        "issuer": url,
        "authorization_endpoint": f"{url}/authorize",
        "token_endpoint": f"{url}/token",
        "code_challenge_methods_supported": ["S256"],
    }


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        ({RESOURCE: {"resource": "https://other.example/mcp", "authorization_servers": ["URL"]}}, "somebody else"),
        ({RESOURCE: {"resource": "URL/mcp/deeper", "authorization_servers": ["URL"]}}, "somebody else"),
        ({RESOURCE: {"resource": "URL/mcp", "authorization_servers": []}}, "no authorization server"),
        ({RESOURCE: {"resource": "URL/mcp", "authorization_servers": ["http://10.0.0.1"]}}, "not https"),
        ({RESOURCE: {"resource": "URL/mcp", "authorization_servers": ["https://10.0.0.1"]}}, "may not be fetched"),
        ({RESOURCE: {"resource": "URL/mcp", "authorization_servers": ["https://169.254.169.254"]}}, "may not be"),
        ({RESOURCE: {"resource": "URL/mcp", "authorization_servers": ["https://metadata.internal"]}}, "may not be"),
        ({RESOURCE: {"resource": "URL/mcp", "authorization_servers": ["http://127.0.0.1:8081"]}}, "may not be fetched"),
        ({RESOURCE: {"resource": "URL/mcp", "authorization_servers": ["file:///etc/passwd"]}}, "is no address"),
        ({RESOURCE: "http://127.0.0.1:1/"}, "redirected"),
        ({METADATA: {"issuer": "https://evil.example"}}, "names 'https://evil.example' instead"),
        ({METADATA: {"code_challenge_methods_supported": ["plain"]}}, "does not offer PKCE"),
        ({METADATA: {"token_endpoint": "http://10.0.0.1/token"}}, "not https"),
        ({METADATA: {"authorization_endpoint": "javascript:alert(1)"}}, "is no address"),
        ({METADATA: {"token_endpoint": None}}, "names no token_endpoint"),
        ({METADATA: ["no object"]}, "not a JSON object"),
    ],
)
async def test_what_points_elsewhere_or_mixes_issuers_up_is_refused(
    lies: Lies, documents: dict[str, Any], told: str
) -> None:
    honest_ones = {
        RESOURCE: {"resource": f"{lies.url}/mcp", "authorization_servers": [lies.url]},
        METADATA: honest(lies.url),
    }
    for path, document in json.loads(json.dumps(documents).replace("URL", lies.url)).items():
        is_change = path == METADATA and isinstance(document, dict)
        honest_ones[path] = {**honest_ones[path], **document} if is_change else document
    lies.documents = honest_ones
    oauth = RemoteOAuth(Guard(allow_private=[urlsplit(lies.url).netloc]))
    with pytest.raises(HoldfastError) as refused:
        await oauth.discover(f"{lies.url}/mcp")
    assert told in refused.value.message


async def test_an_honest_server_is_discovered_so_that_the_lies_can_fail(lies: Lies) -> None:
    lies.documents = {
        RESOURCE: {"resource": f"{lies.url}/mcp", "authorization_servers": [lies.url], "scopes_supported": ["a", "b"]},
        METADATA: honest(lies.url),
    }
    oauth = RemoteOAuth(Guard(allow_private=[urlsplit(lies.url).netloc]))
    found = await oauth.discover(f"{lies.url}/mcp")
    assert (found.issuer, found.resource, found.scope) == (lies.url, f"{lies.url}/mcp", "a b")
    with pytest.raises(OAuthRefused, match="registers nobody by itself"):
        await oauth.register(found, BACK)


@pytest.fixture
async def served() -> AsyncIterator[str]:
    """A server on the official SDK, which answers both revisions at one address."""
    app = Server("plain", on_list_tools=_tools, on_call_tool=_call).streamable_http_app()
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="on"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    server.should_exit = True
    await serving


async def _tools(context: ServerRequestContext[Any], params: Any) -> mcp_types.ListToolsResult:
    tools = [mcp_types.Tool(name=name, description="x", input_schema={"type": "object"}) for name in ("echo", "slow")]
    return mcp_types.ListToolsResult(tools=tools)


async def _call(context: ServerRequestContext[Any], params: Any) -> mcp_types.CallToolResult:
    if params.name == "slow":
        for done in range(3):
            await context.session.report_progress(done, 3, "on")
    said = str((params.arguments or {}).get("text", ""))
    return mcp_types.CallToolResult(content=[mcp_types.TextContent(text=said)], structured_content={"said": said})


async def test_the_newest_revision_is_spoken_where_the_server_knows_it(served: str) -> None:
    guard = Guard(allow_private=[urlsplit(served).netloc])
    connection = await open_remote(guard, "remote", served)
    described = await connection.describe()
    assert described.protocol == "2026-07-28" and [tool.name for tool in described.tools] == ["echo", "slow"]
    answers = await asyncio.gather(*(connection.call("echo", {"text": str(index)}) for index in range(20)))
    assert [answer.structured for answer in answers] == [{"said": str(index)} for index in range(20)]
    seen: list[float] = []

    async def tell(done: float, total: float | None, message: str) -> None:
        seen.append(done)

    assert not (await connection.call("slow", {"text": "x"}, progress=tell)).is_error
    assert seen == [0, 1, 2]
    await connection.close()


async def test_a_private_address_is_not_a_remote_server_unless_the_operator_says_so(lies: Lies) -> None:
    with pytest.raises(HoldfastError, match="not on the public internet"):
        await open_remote(Guard(), "remote", f"{lies.url}/mcp")
    assert lies.asked == []


async def test_credentials_are_not_sent_in_clear_to_another_machine() -> None:
    with pytest.raises(HoldfastError, match="not https"):
        await open_remote(Guard(), "remote", "http://mcp.example.com/", headers={"authorization": "Bearer x"})


async def test_a_server_that_is_none_is_named(lies: Lies) -> None:
    with pytest.raises(ServerFailed, match="remote "):
        await open_remote(Guard(allow_private=[urlsplit(lies.url).netloc]), "remote", f"{lies.url}/mcp")
