"""The only way out of a sandbox: to the places on its list, at addresses that the proxy resolved and judged itself."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from holdfast.engines.runtime.base import RunSpec
from holdfast.engines.runtime.egress import EgressRules
from holdfast.engines.runtime.process import ProcessRuntime
from tests.support.sandbox.programs import PYTHON, interpreter, printed

pytestmark = pytest.mark.slow

ASK = """
import json, sys, urllib.request, urllib.error
answers = {}
for url in sys.argv[1:]:
    try:
        answers[url] = urllib.request.urlopen(url, timeout=20).read().decode()
    except urllib.error.HTTPError as error:
        answers[url] = f"{error.code} {error.read().decode().strip()}"
    except OSError as error:
        answers[url] = f"failed: {error}"
print(json.dumps(answers))
"""
RAW = """
import socket, sys
with socket.create_connection(("127.0.0.1", 3128), 20) as out:
    out.sendall(sys.argv[1].encode().decode("unicode_escape").encode("latin-1"))
    answer = b""
    while piece := out.recv(65536):
        answer += piece
print(answer.decode())
"""


class Names:
    """A resolver that knows a few names and remembers who asked."""

    def __init__(self, names: dict[str, list[str]]) -> None:
        self.names = names
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        if host not in self.names:
            raise OSError("no such name")
        return self.names[host]


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """A web server on this machine that says what it was asked."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        body = head.split(b"\r\n\r\n")[0]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def asked(
    egress: tuple[str, ...], *urls: str, names: dict[str, list[str]] = {}, allow_private: tuple[str, ...] = ()
) -> dict[str, str]:
    runtime = ProcessRuntime(EgressRules(allow_private, Names(names)))
    spec = RunSpec("asker", (PYTHON, "-I", "-c", ASK, *urls), mounts=interpreter(), egress=egress)
    found: dict[str, str] = json.loads((await printed(runtime, spec)).splitlines()[0])
    await runtime.close()
    return found


async def raw(egress: tuple[str, ...], text: str) -> str:
    runtime = ProcessRuntime(EgressRules(resolver=Names({})))
    spec = RunSpec("raw", (PYTHON, "-I", "-c", RAW, text), mounts=interpreter(), egress=egress)
    said = await printed(runtime, spec)
    await runtime.close()
    return said


async def test_a_listed_place_is_reached_and_others_are_refused_by_name(port: int) -> None:
    listed, other = f"http://127.0.0.1:{port}/a?b=c", f"http://127.0.0.1:{port + 1}/"
    answers = await asked((f"127.0.0.1:{port}",), listed, other, "http://elsewhere.example/")
    assert answers[listed].startswith("GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:")
    assert "proxy" not in answers[listed].lower()
    assert answers[other] == f"403 127.0.0.1:{port + 1} is refused: it is not on the allow-list of this server"
    assert answers["http://elsewhere.example/"].startswith("403 elsewhere.example:80 is refused")


async def test_connect_leads_to_the_place_and_carries_whatever_follows(port: int) -> None:
    place = f"127.0.0.1:{port}"
    said = await raw(
        (place,), f"CONNECT {place} HTTP/1.1\\r\\nHost: {place}\\r\\n\\r\\nGET /through HTTP/1.1\\r\\n\\r\\n"
    )
    assert said.startswith("HTTP/1.1 200 Connection Established\r\n\r\nHTTP/1.1 200 OK") and "GET /through" in said


@pytest.mark.parametrize(
    ("request_text", "told"),
    [
        ("CONNECT 127.0.0.1:22 HTTP/1.1", "403 Forbidden"),
        ("CONNECT nothing HTTP/1.1", "400 Bad Request"),
        ("CONNECT http://listed.example:443/ HTTP/1.1", "400 Bad Request"),
        ("CONNECT 2130706433:443 HTTP/1.1", "400 Bad Request"),
        ("CONNECT user@listed.example:443 HTTP/1.1", "400 Bad Request"),
        ("CONNECT [::ffff:127.0.0.1]:443 HTTP/1.1", "403 Forbidden"),
        ("CONNECT listed.example.:443 HTTP/1.1", "502 Bad Gateway"),
        ("GET /relative HTTP/1.1", "400 Bad Request"),
        ("GET https://listed.example/ HTTP/1.1", "400 Bad Request"),
        ("GET file:///etc/passwd HTTP/1.1", "400 Bad Request"),
        ("nonsense", "400 Bad Request"),
    ],
)
async def test_what_is_no_plain_request_to_a_listed_place_goes_nowhere(request_text: str, told: str) -> None:
    assert (await raw(("listed.example:443",), f"{request_text}\\r\\n\\r\\n")).startswith(f"HTTP/1.1 {told}")


async def test_a_public_name_that_leads_to_a_private_address_is_refused(port: int) -> None:
    url = f"http://public.example:{port}/"
    for address in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00::1"):
        answers = await asked((f"public.example:{port}",), url, names={"public.example": [address]})
        assert answers[url] == f"403 public.example:{port} is refused: it leads to a private address"
    mixed = {"public.example": ["93.184.216.34", "127.0.0.1"]}
    assert "private address" in (await asked((f"public.example:{port}",), url, names=mixed))[url]


async def test_a_local_name_or_the_operators_list_opens_a_private_place(port: int) -> None:
    local, public = f"http://wiki.lan:{port}/", f"http://git.example.com:{port}/"
    names = {"wiki.lan": ["127.0.0.1"], "git.example.com": ["127.0.0.1"]}
    listed = (f"wiki.lan:{port}", f"git.example.com:{port}")
    answers = await asked(listed, local, public, names=names)
    assert answers[local].startswith("GET / ") and "private address" in answers[public]
    answers = await asked(listed, public, names=names, allow_private=(f"git.example.com:{port}",))
    assert answers[public].startswith("GET / ")


async def test_a_local_name_never_leads_to_the_metadata_service() -> None:
    url = "http://metadata.internal/"
    answers = await asked(("metadata.internal:80",), url, names={"metadata.internal": ["169.254.169.254"]})
    assert "private address" in answers[url]


async def test_refusals_are_in_the_programs_log() -> None:
    runtime = ProcessRuntime(EgressRules(resolver=Names({})))
    urls = ("http://a.example/", "http://b.example/", "http://a.example/")
    spec = RunSpec("asker", (PYTHON, "-I", "-c", ASK, *urls), mounts=interpreter(), egress=("c.example:443",))
    running = await runtime.start(spec)
    await running.stdout.read()
    await running.wait()
    assert running.stderr_tail() == "[sandbox] refused to reach a.example:80, b.example:80"
    await runtime.close()


async def test_without_a_list_there_is_no_way_out_at_all(port: int) -> None:
    answers = await asked((), f"http://127.0.0.1:{port}/")
    assert answers[f"http://127.0.0.1:{port}/"].startswith("failed: ")
