"""The guard: attack URLs reach nothing, redirects are checked again, bodies and time are capped."""

import asyncio
import gzip
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import HoldfastError, Invalid
from holdfast.engines.fetch.network.addresses import Exceptions, closed_because
from holdfast.engines.fetch.network.connect import Blocked, SystemResolver
from holdfast.engines.fetch.network.guard import FetchFailed, FetchLimits, Guard, Request
from holdfast.engines.fetch.network.url import BadUrl, parse_url
from tests.fakes.web import Names, Site, content, html, redirect, site
from tests.support.properties import examples

ATTACKS = [
    "http://127.0.0.1:{port}/",
    "http://localhost:{port}/",
    "http://LOCALHOST.:{port}/",
    "http://sub.localhost:{port}/",
    "http://127.1:{port}/",
    "http://0:{port}/",
    "http://0.0.0.0:{port}/",
    "http://2130706433:{port}/",
    "http://0x7f000001:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://0x7f.0.0.1:{port}/",
    "http://127.0.0.1.:{port}/",
    "http://①②⑦.⓪.⓪.①:{port}/",
    "http://127。0。0。1:{port}/",
    "http://127%2e0%2e0%2e1:{port}/",
    "http://[::1]:{port}/",
    "http://[::]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]:{port}/",
    "http://[::127.0.0.1]:{port}/",
    "http://[64:ff9b::7f00:1]:{port}/",
    "http://[64:ff9b:1::7f00:1]:{port}/",
    "http://[2002:7f00:1::]:{port}/",
    "http://[2001:0:7f00:1::]:{port}/",
    "http://[fe80::1%25lo]:{port}/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://169.254.169.254/latest/meta-data/",
    "http://100.100.100.200/latest/meta-data/",
    "http://168.63.129.16/machine",
    "http://10.0.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://198.18.0.1/",
    "http://255.255.255.255/",
    "http://user:password@127.0.0.1:{port}/",
    "http://public.test@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}#@public.test/",
    "http://public.test\\@127.0.0.1:{port}/",
    "http://public.test:80\n@127.0.0.1:{port}/",
    "http:/\\127.0.0.1:{port}/",
    "http://loopback.test:{port}/",
    "http://mixed.test:{port}/",
    "http://six.test:{port}/",
    "http://mapped.test:{port}/",
    "http://translated.test:{port}/",
    "http://scoped.test:{port}/",
    "http://metadata.google.internal/",
    "http://public.test:22/",
    "http://public.test:6379/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:{port}/_GET",
    "ftp://127.0.0.1:{port}/",
    "data:text/html,hello",
    "jar:http://127.0.0.1:{port}!/",
    "//127.0.0.1:{port}/",
]


def names() -> Names:
    return Names(
        site_test=["127.0.0.1"],
        other_test=["127.0.0.1"],
        loopback_test=["127.0.0.1"],
        public_test=["93.184.215.14"],
        mixed_test=["93.184.215.14", "127.0.0.1"],
        six_test=["::1"],
        mapped_test=["::ffff:127.0.0.1"],
        translated_test=["64:ff9b::7f00:1"],
        scoped_test=["fe80::1%lo"],
    )


@pytest.fixture
async def treasure() -> AsyncIterator[Site]:
    """What an attacker wants to reach: a server on the loopback address."""
    async with site() as found:
        found.pages["/"] = html("the treasure")
        yield found


@pytest.fixture
async def front() -> AsyncIterator[Site]:
    """A site that the guard may read, by the name site.test."""
    async with site() as found:
        yield found


@pytest.fixture
async def guard(front: Site) -> AsyncIterator[Guard]:
    made = Guard(allow_private=[f"site.test:{front.port}"], resolver=names(), limits=FetchLimits(seconds=20))
    yield made
    await made.aclose()


async def refused(guard: Guard, url: str) -> bool:
    try:
        await guard.get(parse_url(url))
    except Invalid:
        return True
    return False


@pytest.mark.contract("XS-T2")
async def test_no_attack_url_reaches_anything(treasure: Site) -> None:
    guard = Guard(resolver=names())
    attacks = [attack.replace("{port}", str(treasure.port)) for attack in ATTACKS]
    assert [attack for attack in attacks if not await refused(guard, attack)] == []
    assert treasure.asked == []


@pytest.mark.contract("XS-T2")
async def test_no_redirect_to_an_attack_url_reaches_anything(treasure: Site, front: Site, guard: Guard) -> None:
    reached = []
    for attack in ATTACKS:
        if "\n" in attack or attack.startswith("http:/\\"):
            continue  # no header can carry the one, and a Location resolves the other to a path
        front.pages["/go"] = redirect(attack.replace("{port}", str(treasure.port)))
        if not await refused(guard, front.url("/go")):
            reached.append(attack)
    assert reached == []
    assert treasure.asked == []


async def test_the_allowed_site_is_read_and_resolved_once(front: Site) -> None:
    resolver = names()
    guard = Guard(allow_private=[f"site.test:{front.port}"], resolver=resolver)
    front.pages["/a"] = redirect("b?x=1")
    front.pages["/b"] = html("hello")
    reply = await guard.get(parse_url(front.url("/a")))
    assert (reply.status, str(reply.url)) == (200, front.url("/b?x=1"))
    assert resolver.questions == ["site.test"]
    assert front.headers[0]["Host"] == f"site.test:{front.port}"
    assert "Holdfast" in front.headers[0]["User-Agent"]


async def test_a_redirect_to_a_path_beyond_ascii_is_followed_as_utf_8(front: Site, guard: Guard) -> None:
    front.pages["/a"] = redirect("/größe")
    front.pages["/größe"] = html("hello")
    reply = await guard.get(parse_url(front.url("/a")))
    assert reply.url.target == "/gr%C3%B6%C3%9Fe"


async def test_an_exception_for_one_port_is_none_for_another(treasure: Site, front: Site, guard: Guard) -> None:
    with pytest.raises(Blocked):
        await guard.get(parse_url(treasure.url("/")))
    assert treasure.asked == []


async def test_trusting_an_api_opens_that_origin_only(treasure: Site, front: Site) -> None:
    front.pages["/"] = html("api")
    front.pages["/away"] = redirect(f"http://127.0.0.1:{treasure.port}/")
    guard = Guard().trusting(f"http://127.0.0.1:{front.port}/api")
    assert (await guard.get(parse_url(front.url("/", host="127.0.0.1")))).status == 200
    with pytest.raises(Blocked):
        await guard.get(parse_url(front.url("/away", host="127.0.0.1")))


async def test_a_credential_does_not_follow_a_redirect_to_another_origin(front: Site) -> None:
    async with site() as other:
        other.pages["/"] = html("other")
        allowed = [f"site.test:{front.port}", f"other.test:{other.port}"]
        guard = Guard(allow_private=allowed, resolver=names())
        front.pages["/a"] = redirect(other.url("/", host="other.test"), 307)
        headers = {"Authorization": "Bearer x", "X-Subscription-Token": "y", "Accept": "text/html"}
        await guard.send(Request(parse_url(front.url("/a")), "POST", headers, b"secret"))
        assert "Authorization" in front.headers[0]
        assert not {"Authorization", "X-Subscription-Token"} & set(other.headers[0])
        assert other.headers[0]["Accept"] == "text/html"


async def test_more_than_five_redirects_are_too_many(front: Site, guard: Guard) -> None:
    front.pages["/loop"] = redirect("/loop")
    with pytest.raises(FetchFailed, match="more than 5 times"):
        await guard.get(parse_url(front.url("/loop")))
    assert len(front.asked) == 6


async def test_a_compressed_bomb_is_cut_while_it_inflates(front: Site, guard: Guard) -> None:
    front.pages["/bomb"] = content(gzip.compress(bytes(50_000_000)), "text/plain", Content_Encoding="gzip")
    reply = await guard.get(parse_url(front.url("/bomb")), limits=FetchLimits(bytes=100_000, seconds=20))
    assert (len(reply.body), reply.truncated) == (100_000, True)


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "zstd", "nonsense"])
async def test_an_encoding_that_we_did_not_ask_for_is_refused(encoding: str, front: Site, guard: Guard) -> None:
    front.pages["/x"] = content(gzip.compress(gzip.compress(b"x")), "text/plain", Content_Encoding=encoding)
    with pytest.raises(FetchFailed, match="not supported"):
        await guard.get(parse_url(front.url("/x")))


async def test_gzip_and_both_kinds_of_deflate_are_read(front: Site, guard: Guard) -> None:
    import zlib

    raw = zlib.compressobj(wbits=-15)
    bodies = {
        "gzip": gzip.compress(b"plain"),
        "deflate": zlib.compress(b"plain"),
        "Deflate": raw.compress(b"plain") + raw.flush(),
    }
    for encoding, body in bodies.items():
        front.pages["/x"] = content(body, "text/plain", Content_Encoding=encoding)
        assert (await guard.get(parse_url(front.url("/x")))).body == b"plain"
    front.pages["/x"] = content(b"not gzip", "text/plain", Content_Encoding="gzip")
    with pytest.raises(FetchFailed, match="damaged"):
        await guard.get(parse_url(front.url("/x")))


async def test_a_slow_drip_ends_at_the_deadline(front: Site, guard: Guard) -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b".")
            await asyncio.sleep(0.05)

    front.pages["/drip"] = drip
    with pytest.raises(FetchFailed, match=r"within 0.5 seconds"):
        await guard.get(parse_url(front.url("/drip")), limits=FetchLimits(seconds=0.5))


async def test_headers_without_end_are_refused(guard: Guard) -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n" + b"X-Flood: " + b"x" * 300_000)
        await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(flood, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    flooded = Guard(allow_private=[f"site.test:{port}"], resolver=names(), limits=FetchLimits(seconds=60))
    with pytest.raises(FetchFailed, match="broke off"):
        await flooded.get(parse_url(f"http://site.test:{port}/"))
    await flooded.aclose()
    server.close()


async def test_a_dead_host_and_an_unknown_one_fail_in_words(front: Site) -> None:
    guard = Guard(allow_private=["site.test:1"], resolver=names(), limits=FetchLimits(seconds=20))
    with pytest.raises(FetchFailed, match="could not be reached"):
        await guard.get(parse_url("http://site.test:1/"))
    with pytest.raises(FetchFailed, match="could not be resolved"):
        await Guard(resolver=names()).get(parse_url("http://nowhere.test/"))


async def test_a_hop_may_be_refused_by_the_caller(front: Site, guard: Guard) -> None:
    front.pages["/a"] = redirect("/b")
    seen: list[str] = []

    async def look(url: object) -> None:
        seen.append(str(url))
        if str(url).endswith("/b"):
            raise HoldfastError("no further")

    with pytest.raises(HoldfastError, match="no further"):
        await guard.get(parse_url(front.url("/a")), before_hop=look)
    assert front.asked == ["/a"]
    assert len(seen) == 2


def _certificate(folder: Path, host: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's and a client's context for a certificate that names `host`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    client = ssl.create_default_context(cadata=made.public_bytes(serialization.Encoding.PEM).decode())
    return server, client


async def test_tls_is_checked_on_the_host_name_though_we_connect_to_an_address(tmp_path: Path) -> None:
    server, client = _certificate(tmp_path, "site.test")
    async with site(tls=server) as secure:
        secure.pages["/"] = html("secure")
        allowed = [f"site.test:{secure.port}", f"other.test:{secure.port}"]
        guard = Guard(allow_private=allowed, resolver=names(), ssl_context=client)
        assert (await guard.get(parse_url(f"https://site.test:{secure.port}/"))).status == 200
        with pytest.raises(FetchFailed, match="certificate"):
            await guard.get(parse_url(f"https://other.test:{secure.port}/"))
        await guard.aclose()


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("HTTP://Example.COM", "http://example.com/"),
        ("https://example.com:443/a b".replace(" ", "%20"), "https://example.com/a%20b"),
        ("http://bücher.example/ü?q=ä", "http://xn--bcher-kva.example/%C3%BC?q=%C3%A4"),
        ("http://example.com./x#part", "http://example.com/x"),
        ('http://example.com/a b/"c"?q=d e|f', "http://example.com/a%20b/%22c%22?q=d%20e%7Cf"),
        ("http://[2606:4700::1111]:8080/", "http://[2606:4700::1111]:8080/"),
        (" https://example.com/?a=1&b=%2F ", "https://example.com/?a=1&b=%2F"),
    ],
)
def test_a_url_has_one_reading(text: str, read: str) -> None:
    assert str(parse_url(text)) == read
    assert parse_url(read) == parse_url(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com",
        "http://",
        "http:///x",
        "http://a b/",
        "http://a..b/",
        "http://-/",
        "http://x:99999/",
        "http://x:0/",
        "http://[::1",
        "http://[1.2.3.4]/",
        "http://ex%61mple.com/",
        "http://\u2024/",
        "http://a/" + "x" * 8_000,
    ],
)
def test_what_is_no_url_is_refused(text: str) -> None:
    with pytest.raises(BadUrl):
        parse_url(text)


@examples(400)
@given(st.text("ab1.:/@[]%#?\\-_ \t\nüⅫ。０", max_size=30))
def test_whatever_is_read_as_a_url_reads_the_same_again(rest: str) -> None:
    for text in (f"http://{rest}", f"https://host.test{rest}"):
        try:
            url = parse_url(text)
        except BadUrl:
            continue
        assert parse_url(str(url)) == url
        assert str(url).isascii()
        assert "@" not in url.authority


def test_a_url_with_a_password_is_refused_without_repeating_it() -> None:
    with pytest.raises(BadUrl) as caught:
        parse_url("https://me:hunter2@example.com/")
    assert "hunter2" not in caught.value.message + caught.value.fields[0].message


async def test_the_machines_resolver_gives_each_address_once() -> None:
    resolver = SystemResolver(threads=1)
    assert await resolver.resolve("127.0.0.1", 80) == ["127.0.0.1"]
    with pytest.raises(socket.gaierror):
        await resolver.resolve("no-such-name.invalid", 80)


def test_public_addresses_are_open_and_special_ones_are_closed() -> None:
    import ipaddress

    for address in ("1.1.1.1", "93.184.215.14", "2606:4700::1111", "2a00:1450:4001::1"):
        assert closed_because(ipaddress.ip_address(address)) is None
    for address in ("192.0.0.192", "192.88.99.1", "64:ff9b::808:808", "2002:808:808::", "3fff::1", "5f00::1", "100::1"):
        assert closed_because(ipaddress.ip_address(address)) is not None


def test_naming_a_host_never_opens_a_metadata_service() -> None:
    by_name = Exceptions(["wiki.lan"])
    assert by_name.refusal("wiki.lan", 80, ["10.0.0.7"]) is None
    assert by_name.refusal("wiki.lan", 80, ["169.254.169.254"]) == "link-local"
    assert Exceptions(["169.254.169.254/32"]).refusal("x.test", 80, ["169.254.169.254"]) is None
    assert Exceptions(["10.0.0.0/8"]).refusal("x.test", 80, ["10.1.1.1", "192.168.0.1"]) == "private"
    assert Exceptions(["[fd00::1]:80"]).refusal("x.test", 81, ["fd00::1"]) is not None
    with pytest.raises(ValueError, match="neither a network"):
        Exceptions(["wiki.lan:http"])
