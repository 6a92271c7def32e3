"""Headers about where a request came from are believed from named proxies, and from nobody else."""

import pytest
from starlette.types import Receive, Scope, Send

from holdfast.core.settings import SettingsError
from holdfast.storage.sqlite import SqliteDatabase
from holdfast.surfaces.http.asgi import send_json
from holdfast.surfaces.http.protocol.proxies import Proxies
from tests.support.server import TestServer, serving
from tests.surfaces.test_gate import gate_around

CLAIMS = {
    b"x-forwarded-for": b"203.0.113.9",
    b"x-real-ip": b"203.0.113.9",
    b"forwarded": b"for=203.0.113.9;proto=https;host=evil.example",
    b"x-forwarded-proto": b"https",
    b"x-forwarded-host": b"evil.example",
    b"x-forwarded-port": b"444",
    b"x-forwarded-prefix": b"/evil",
    b"x-client-ip": b"203.0.113.9",
    b"true-client-ip": b"203.0.113.9",
    b"cf-connecting-ip": b"203.0.113.9",
}
BELIEVED = {b"x-forwarded-for": ("203.0.113.9", "http"), b"x-forwarded-proto": ("10.0.0.1", "https")}


async def seen(proxies: Proxies, client: str | None, headers: list[tuple[bytes, bytes]]) -> tuple[str | None, str, str]:
    """Client, scheme and path as the surfaces see them."""
    found: list[Scope] = []

    async def surface(scope: Scope, receive: Receive, send: Send) -> None:
        found.append(scope)
        await send_json(send, 200, {})

    async def gone() -> dict[str, object]:
        return {"type": "http.disconnect"}

    async def unheard(message: object) -> None:
        return None

    scope: Scope = {"type": "http", "method": "GET", "path": "/", "scheme": "http", "root_path": ""}
    scope["headers"] = [(b"host", b"localhost"), *headers]
    scope["client"] = None if client is None else (client, 4711)
    await gate_around(surface, proxies=proxies)(scope, gone, unheard)
    saw = found[0]["client"]
    return None if saw is None else saw[0], found[0]["scheme"], found[0]["root_path"] + found[0]["path"]


@pytest.mark.parametrize("claim", CLAIMS, ids=bytes.decode)
@pytest.mark.parametrize("named", [(), ("10.0.0.1",), ("10.0.0.0/8",), ("192.0.2.1",)], ids=str)
async def test_a_claim_counts_only_from_a_named_proxy(claim: bytes, named: tuple[str, ...]) -> None:
    told = await seen(Proxies(named), "10.0.0.1", [(claim, CLAIMS[claim])])
    trusted = named in (("10.0.0.1",), ("10.0.0.0/8",))
    client, scheme = BELIEVED.get(claim, ("10.0.0.1", "http")) if trusted else ("10.0.0.1", "http")
    assert told == (client, scheme, "/")


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        (["203.0.113.9"], "203.0.113.9"),
        (["198.51.100.7, 203.0.113.9"], "203.0.113.9"),
        (["198.51.100.7", "203.0.113.9"], "203.0.113.9"),
        (["198.51.100.7, 203.0.113.9, 10.0.0.2"], "203.0.113.9"),
        (["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        (["203.0.113.9:5555"], "203.0.113.9"),
        (["[2001:db8::1]:5555"], "2001:db8::1"),
        (["2001:db8::1"], "2001:db8::1"),
        (["::ffff:203.0.113.9"], "203.0.113.9"),
        (["203.0.113.9, unknown"], "10.0.0.1"),
        (["203.0.113.9, unknown, 10.0.0.2"], "10.0.0.2"),
        (["203.0.113.9, "], "10.0.0.1"),
        ([""], "10.0.0.1"),
        (["' OR 1=1"], "10.0.0.1"),
        ([", ".join(["198.51.100.7"] * 2000)], "198.51.100.7"),
    ],
)
async def test_the_client_is_the_last_hop_that_is_no_proxy_of_ours(forwarded: list[str], client: str) -> None:
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    assert (await seen(Proxies(["10.0.0.0/8"]), "10.0.0.1", headers))[0] == client


async def test_a_client_without_an_address_is_no_proxy() -> None:
    told = await seen(Proxies(["0.0.0.0/0", "::/0"]), None, [(b"x-forwarded-for", b"203.0.113.9")])
    assert told[0] is None


@pytest.mark.parametrize("scheme", ["https, http", "ftp", "", "javascript"])
async def test_the_scheme_is_the_one_that_our_proxy_wrote(scheme: str) -> None:
    told = await seen(Proxies(["10.0.0.1"]), "10.0.0.1", [(b"x-forwarded-proto", scheme.encode())])
    assert told[1] == "http"


def test_a_proxy_that_is_no_address_stops_the_start() -> None:
    with pytest.raises(SettingsError, match="HOLDFAST_TRUSTED_PROXIES"):
        Proxies(["proxy.example"])


async def attempts(server: TestServer, addresses: list[str]) -> list[int]:
    async with server.stranger() as client:
        return [
            (
                await client.post(
                    "/sign-in", data={"email": f"{n}@x.y", "password": "p"}, headers={"X-Forwarded-For": address}
                )
            ).status_code
            for n, address in enumerate(addresses)
        ]


async def test_a_made_up_address_buys_no_more_sign_in_attempts(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database, sign_ins_per_minute=2) as server:
        assert await attempts(server, ["203.0.113.1", "203.0.113.2", "203.0.113.3"]) == [401, 401, 429]


async def test_behind_a_named_proxy_each_client_has_its_own_attempts(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database, sign_ins_per_minute=2, trusted_proxies=("127.0.0.1",)) as server:
        told = await attempts(server, ["203.0.113.1", "203.0.113.2", "9.9.9.9, 203.0.113.1", "8.8.8.8, 203.0.113.1"])
        assert told == [401, 401, 401, 429]
