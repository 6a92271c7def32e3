"""JWT bearers against a server of published keys: only the right key, algorithm, audience and person get in."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from holdfast.core.settings import SettingsError, load
from holdfast.features.identity.service import local_principal
from holdfast.features.identity.sessions import store as session_store
from holdfast.storage.sqlite import SqliteDatabase
from tests.fakes.key_server import KeyServer, key_server
from tests.support.server import TestServer, serving

ISSUER = "https://issuer.example"
SECRET = "a shared secret that is long enough for every algorithm, which is sixty-four bytes"
# One of the forged tokens is signed by such a key.
pytestmark = pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")


@cache
def rsa_key(bits: int = 2048, other: int = 0) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


@cache
def ec_key(curve: type[ec.EllipticCurve]) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve())


@cache
def ed_key() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def published(algorithm: Any, key: Any, **more: str) -> dict[str, Any]:
    return {**json.loads(algorithm.to_jwk(key.public_key())), **more}


RSA = jwt.algorithms.RSAAlgorithm
EC = jwt.algorithms.ECAlgorithm
OKP = jwt.algorithms.OKPAlgorithm


def every_key() -> list[dict[str, Any]]:
    oct_key = base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("=")
    return [
        published(RSA, rsa_key(), kid="rsa", use="sig", alg="RS256"),
        published(RSA, rsa_key(other=1), kid="pss"),
        published(EC, ec_key(ec.SECP256R1), kid="p256", use="sig"),
        published(EC, ec_key(ec.SECP384R1), kid="p384"),
        published(OKP, ed_key(), kid="ed"),
        {"kty": "oct", "k": oct_key, "kid": "oct", "alg": "HS256"},
        published(RSA, rsa_key(other=2), kid="enc", use="enc"),
        published(RSA, rsa_key(1024), kid="small"),
        {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"},
    ]


def claims(**changed: Any) -> dict[str, Any]:
    now = int(time.time())
    base = {
        "iss": ISSUER,
        "aud": "holdfast",
        "sub": "ada",
        "iat": now,
        "exp": now + 300,
        "email": "ada@example.com",
        "email_verified": True,
    }
    return {name: value for name, value in {**base, **changed}.items() if value is not ...}


def signed(key: Any, algorithm: str, kid: Any = "rsa", headers: dict[str, Any] | None = None, **changed: Any) -> str:
    return jwt.encode(claims(**changed), key, algorithm=algorithm, headers={"kid": kid, **(headers or {})})


def by_hand(header: dict[str, Any], payload: Any, secret: bytes | None) -> str:
    """A token that the library refuses to make."""
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in (header, payload)]
    body = b".".join(parts)
    mac = b"" if secret is None else hmac.new(secret, body, hashlib.sha256).digest()
    return (body + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()


def public(encoding: Encoding, form: PublicFormat) -> bytes:
    return rsa_key().public_key().public_bytes(encoding, form)


def confused(secret: Callable[[], bytes], alg: str = "HS256", kid: str = "rsa") -> str:
    return by_hand({"alg": alg, "kid": kid, "typ": "JWT"}, claims(), secret())


PEM = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
DER = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
PKCS1 = (Encoding.PEM, PublicFormat.PKCS1)

FORGED: dict[str, Callable[[], str]] = {
    "HS256 by the public key as PEM": lambda: confused(lambda: public(*PEM)),
    "HS256 by the public key as PEM without its last line end": lambda: confused(lambda: public(*PEM).strip()),
    "HS256 by the public key as DER": lambda: confused(lambda: public(*DER)),
    "HS256 by the public key as PKCS 1": lambda: confused(lambda: public(*PKCS1)),
    "HS256 by the published modulus": lambda: confused(lambda: str(every_key()[0]["n"]).encode()),
    "HS256 by the published set": lambda: confused(lambda: json.dumps({"keys": every_key()}).encode()),
    "HS256 by nothing": lambda: confused(lambda: b""),
    "HS256 by a published shared key": lambda: confused(lambda: SECRET.encode(), kid="oct"),
    "RS256 in name with a shared secret's signature": lambda: confused(lambda: public(*PEM), alg="RS256"),
    "none": lambda: by_hand({"alg": "none", "kid": "rsa"}, claims(), None),
    "None": lambda: by_hand({"alg": "None", "kid": "rsa"}, claims(), None),
    "nOnE": lambda: by_hand({"alg": "nOnE"}, claims(), None),
    "no algorithm": lambda: by_hand({"kid": "rsa"}, claims(), None),
    "an algorithm that is a list": lambda: by_hand({"alg": ["RS256"], "kid": "rsa"}, claims(), None),
    "rs256 in small letters": lambda: by_hand({"alg": "rs256", "kid": "rsa"}, claims(), None),
    "another RSA key under a known id": lambda: signed(rsa_key(other=3), "RS256"),
    "another algorithm than the key is for": lambda: signed(rsa_key(), "RS512"),
    "PS256 by a key that is for RS256": lambda: signed(rsa_key(), "PS256"),
    "ES256 under an RSA key's id": lambda: signed(ec_key(ec.SECP256R1), "ES256", "rsa"),
    "RS256 under an EC key's id": lambda: signed(rsa_key(), "RS256", "p256"),
    "EdDSA under an EC key's id": lambda: signed(ed_key(), "EdDSA", "p256"),
    "ES256 by another curve's key": lambda: by_hand({"alg": "ES256", "kid": "p384"}, claims(), b"x"),
    "a key that is for encryption": lambda: signed(rsa_key(other=2), "RS256", "enc"),
    "a key that is too small": lambda: signed(rsa_key(1024), "RS256", "small"),
    "a key that cannot be read": lambda: signed(rsa_key(), "RS256", "broken"),
    "no key id where several would do": lambda: jwt.encode(claims(), rsa_key(), algorithm="RS256"),
    "an unknown key id": lambda: signed(rsa_key(), "RS256", "invented"),
    "a path as key id": lambda: signed(rsa_key(other=3), "RS256", "../../../../dev/null"),
    "a query as key id": lambda: signed(rsa_key(other=3), "RS256", "rsa' OR '1'='1"),
    "an address as key id": lambda: signed(rsa_key(other=3), "RS256", "http://127.0.0.1/jwks"),
    "a long key id": lambda: signed(rsa_key(), "RS256", "r" * 500),
    "a key id that is a number": lambda: by_hand({"alg": "RS256", "kid": 1}, claims(), b"x"),
    "a key of its own in the header": lambda: signed(
        rsa_key(other=3), "RS256", "own", {"jwk": published(RSA, rsa_key(other=3), kid="own")}
    ),
    "a header that must be understood": lambda: signed(rsa_key(), "RS256", headers={"crit": ["exp2"], "exp2": 1}),
    "a signature over something else": lambda: signed(rsa_key(), "RS256")[:-8] + "AAAAAAAA",
    "no signature": lambda: signed(rsa_key(), "RS256").rpartition(".")[0] + ".",
    "two parts": lambda: signed(rsa_key(), "RS256").rpartition(".")[0],
    "five parts": lambda: signed(rsa_key(), "RS256") + ".a.b",
    "a payload that is a list": lambda: by_hand({"alg": "RS256", "kid": "rsa"}, ["sub"], b"x"),
    "too long": lambda: signed(rsa_key(), "RS256", padding="x" * 9000),
    "expired": lambda: signed(rsa_key(), "RS256", exp=int(time.time()) - 10),
    "without an end": lambda: signed(rsa_key(), "RS256", exp=...),
    "an end that is text": lambda: signed(rsa_key(), "RS256", exp="never"),
    "an end beyond numbers": lambda: signed(rsa_key(), "RS256", exp=1e400),
    "not valid yet": lambda: signed(rsa_key(), "RS256", nbf=int(time.time()) + 600),
    "issued in the far future": lambda: signed(rsa_key(), "RS256", iat=int(time.time()) + 10**9),
    "another issuer": lambda: signed(rsa_key(), "RS256", iss="https://another.example"),
    "no issuer": lambda: signed(rsa_key(), "RS256", iss=...),
    "another audience": lambda: signed(rsa_key(), "RS256", aud="another"),
    "no audience": lambda: signed(rsa_key(), "RS256", aud=...),
    "audiences without ours": lambda: signed(rsa_key(), "RS256", aud=["a", "b"]),
    "no subject": lambda: signed(rsa_key(), "RS256", sub=...),
    "an empty subject": lambda: signed(rsa_key(), "RS256", sub=""),
    "anonymous": lambda: signed(rsa_key(), "RS256", is_anonymous=True),
    "anonymous in a way": lambda: signed(rsa_key(), "RS256", is_anonymous="true"),
    "a project's public key": lambda: signed(rsa_key(), "RS256", role="anon"),
    "a project's service key": lambda: signed(rsa_key(), "RS256", role="service_role"),
    "verified: missing": lambda: signed(rsa_key(), "RS256", email_verified=...),
    "verified: false": lambda: signed(rsa_key(), "RS256", email_verified=False),
    "verified: the word false": lambda: signed(rsa_key(), "RS256", email_verified="false"),
    "verified: the word true": lambda: signed(rsa_key(), "RS256", email_verified="true"),
    "verified: 1": lambda: signed(rsa_key(), "RS256", email_verified=1),
    "verified: 0": lambda: signed(rsa_key(), "RS256", email_verified=0),
    "verified: null": lambda: signed(rsa_key(), "RS256", email_verified=None),
    "verified: a list": lambda: signed(rsa_key(), "RS256", email_verified=[True]),
    "verified: elsewhere": lambda: signed(
        rsa_key(), "RS256", email_verified=..., user_metadata={"email_verified": True}
    ),
}
GENUINE: dict[str, Callable[[], str]] = {
    "RS256": lambda: signed(rsa_key(), "RS256"),
    "PS256": lambda: signed(rsa_key(other=1), "PS256", "pss"),
    "ES256": lambda: signed(ec_key(ec.SECP256R1), "ES256", "p256"),
    "ES384": lambda: signed(ec_key(ec.SECP384R1), "ES384", "p384"),
    "EdDSA": lambda: signed(ed_key(), "EdDSA", "ed"),
    "no key id where one would do": lambda: jwt.encode(claims(), ed_key(), algorithm="EdDSA"),
    "several audiences": lambda: signed(rsa_key(), "RS256", aud=["another", "holdfast"]),
    "not anonymous": lambda: signed(rsa_key(), "RS256", is_anonymous=False, role="authenticated"),
}


@pytest.fixture
async def keys() -> AsyncIterator[KeyServer]:
    async with key_server() as running:
        running.keys = every_key()
        yield running


@pytest.fixture
async def at(sqlite_database: SqliteDatabase, keys: KeyServer) -> AsyncIterator[TestServer]:
    configured: dict[str, Any] = {"jwt_jwks_url": f"{keys.url}/jwks", "jwt_issuer": ISSUER, "jwt_audience": "holdfast"}
    async with serving(sqlite_database, **configured) as server:
        await server.services.identity.create_user(server.owner, email="ada@example.com", name="Ada")
        yield server


async def ask(server: TestServer, token: str) -> httpx.Response:
    async with server.stranger() as client:
        return await client.get("/api/me", headers={"Authorization": f"Bearer {token}"})


async def test_what_a_published_key_signed_for_us_gets_in(at: TestServer) -> None:
    for how, make in GENUINE.items():
        answer = await ask(at, make())
        assert (answer.status_code, answer.json().get("name")) == (200, "Ada"), f"{how}: {answer.text}"


async def test_nothing_else_gets_in(at: TestServer, keys: KeyServer) -> None:
    assert (await ask(at, GENUINE["RS256"]())).status_code == 200
    for how, make in FORGED.items():
        answer = await ask(at, make())
        assert answer.status_code == 401, f"{how}: {answer.status_code} {answer.text}"
        assert answer.json()["error"]["message"] == "A valid credential is required.", how
    assert set(keys.asked) == {"/jwks"}


@pytest.mark.parametrize("header", ["jku", "x5u", "jwk", "x5c"])
async def test_a_token_does_not_say_where_its_key_is(at: TestServer, keys: KeyServer, header: str) -> None:
    own = published(RSA, rsa_key(other=3), kid="own")
    value: Any = own if header == "jwk" else [own["n"]] if header == "x5c" else f"{keys.url}/evil"
    forged = signed(rsa_key(other=3), "RS256", "own", {header: value})
    assert (await ask(at, forged)).status_code == 401
    assert set(keys.asked) <= {"/jwks"}


@pytest.mark.one_process("each asks the issuer itself")
async def test_invented_key_ids_make_us_ask_the_issuer_once_more_at_most(at: TestServer, keys: KeyServer) -> None:
    for number in range(30):
        assert (await ask(at, signed(rsa_key(), "RS256", f"invented-{number}"))).status_code == 401
    assert len(keys.asked) <= 2


async def test_a_token_that_can_be_refused_unseen_asks_nobody(at: TestServer, keys: KeyServer) -> None:
    for how in ("none", "HS256 by the public key as PEM", "a long key id", "too long", "two parts"):
        assert (await ask(at, FORGED[how]())).status_code == 401
    assert keys.asked == []


@pytest.mark.parametrize("manner", ["redirected", "huge", "compressed", "not json", "not keys", "broken"])
async def test_a_bad_key_server_is_an_error_with_the_remedy_and_no_way_in(
    at: TestServer, keys: KeyServer, manner: Any
) -> None:
    keys.manner = manner
    answer = await ask(at, GENUINE["RS256"]())
    assert answer.status_code == 502 and "HOLDFAST_JWT_JWKS_URL" in answer.json()["error"]["message"]
    assert keys.asked == ["/jwks"]


@pytest.mark.slow
async def test_a_key_server_that_never_answers_is_given_up(at: TestServer, keys: KeyServer) -> None:
    keys.manner = "never"
    assert (await ask(at, GENUINE["RS256"]())).status_code == 502
    assert (await ask(at, GENUINE["RS256"]())).status_code == 502


async def test_a_shared_secret_takes_no_other_algorithm(sqlite_database: SqliteDatabase) -> None:
    configured: dict[str, Any] = {"jwt_secret": SECRET, "jwt_issuer": ISSUER, "jwt_audience": "holdfast"}
    async with serving(sqlite_database, **configured) as server:
        await server.services.identity.create_user(server.owner, email="ada@example.com", name="Ada")
        for good in ("HS256", "HS384", "HS512"):
            assert (await ask(server, signed(SECRET, good))).status_code == 200
        for how, make in {**FORGED, **GENUINE}.items():
            # Signed by what is the secret here: its claims are tried by the other tests.
            if how != "HS256 by a published shared key":
                assert (await ask(server, make())).status_code == 401, how


async def test_the_verified_claim_may_be_nested_where_the_operator_says_so(
    sqlite_database: SqliteDatabase, keys: KeyServer
) -> None:
    configured: dict[str, Any] = {
        "jwt_jwks_url": f"{keys.url}/jwks",
        "jwt_issuer": ISSUER,
        "jwt_audience": "holdfast",
        "jwt_verified_claim": "app_metadata.email.verified",
    }
    async with serving(sqlite_database, **configured) as server:
        await server.services.identity.create_user(server.owner, email="ada@example.com", name="Ada")
        for value, status in ((True, 200), ("true", 401), (1, 401), (None, 401)):
            token = signed(rsa_key(), "RS256", email_verified=..., app_metadata={"email": {"verified": value}})
            assert (await ask(server, token)).status_code == status, value
        for odd in ({"email": True}, "email", None):
            assert (await ask(server, signed(rsa_key(), "RS256", app_metadata=odd))).status_code == 401


async def test_a_subject_is_its_issuers_own(sqlite_database: SqliteDatabase, keys: KeyServer) -> None:
    configured: dict[str, Any] = {"jwt_jwks_url": f"{keys.url}/jwks", "jwt_issuer": ISSUER, "jwt_audience": "holdfast"}
    async with serving(sqlite_database, **configured) as server:
        identity, database = server.services.identity, server.services.database
        ada = await identity.create_user(server.owner, email="ada@example.com", name="Ada")
        bob = await identity.create_user(server.owner, email="bob@example.com", name="Bob")
        await database.write(lambda tx: session_store.link_subject(tx, ada.id, f"{ISSUER}|ada"))
        await database.write(lambda tx: session_store.link_subject(tx, bob.id, "https://another.example|bob"))
        unnamed: dict[str, Any] = {"email": ..., "email_verified": ...}
        assert (await ask(server, signed(rsa_key(), "RS256", sub="ada", **unnamed))).json()["name"] == "Ada"
        for subject in ("bob", "https://another.example|bob", f"{ISSUER}|ada", ada.id):
            assert (await ask(server, signed(rsa_key(), "RS256", sub=subject, **unnamed))).status_code == 401


async def test_without_an_issuer_a_subject_means_nobody(sqlite_database: SqliteDatabase) -> None:
    async with serving(sqlite_database, jwt_secret=SECRET) as server:
        ada = await server.services.identity.create_user(server.owner, email="ada@example.com", name="Ada")
        await server.services.database.write(lambda tx: session_store.link_subject(tx, ada.id, f"{ISSUER}|ada"))
        for subject in ("ada", f"{ISSUER}|ada"):
            assert (await ask(server, signed(SECRET, "HS256", sub=subject, email=...))).status_code == 401
        assert (await ask(server, signed(SECRET, "HS256", aud=..., iss=...))).status_code == 200


@pytest.mark.parametrize(
    "set_to",
    [
        {"HOLDFAST_JWT_ISSUER": ISSUER, "HOLDFAST_JWT_SECRET": SECRET},
        {"HOLDFAST_JWT_JWKS_URL": "https://issuer.example/jwks"},
    ],
)
async def test_an_issuer_without_an_audience_stops_the_start_and_opens_nothing(
    sqlite_database: SqliteDatabase, set_to: dict[str, str]
) -> None:
    with pytest.raises(SettingsError, match="HOLDFAST_JWT_AUDIENCE"):
        load(set_to)
    load({**set_to, "HOLDFAST_JWT_AUDIENCE": "holdfast"})
    async with serving(sqlite_database, jwt_secret=SECRET, jwt_issuer=ISSUER) as server:
        await server.services.identity.create_user(server.owner, email="ada@example.com", name="Ada")
        assert (await ask(server, signed(SECRET, "HS256"))).status_code == 401


async def test_whoever_makes_an_organization_by_a_token_owns_it(
    sqlite_database: SqliteDatabase, keys: KeyServer
) -> None:
    configured: dict[str, Any] = {
        "jwt_jwks_url": f"{keys.url}/jwks",
        "jwt_issuer": ISSUER,
        "jwt_audience": "holdfast",
        "allow_organizations": True,
    }
    async with serving(sqlite_database, **configured) as server, server.stranger() as client:
        ada = await server.services.identity.create_user(server.owner, email="ada@example.com", name="Ada")
        bearer = {"Authorization": f"Bearer {GENUINE['RS256']()}"}
        made = await client.post("/api/organizations", json={"name": "Mine"}, headers=bearer)
        assert made.status_code == 201, made.text
        there = local_principal(made.json()["id"])
        assert [(user.id, user.role) for user in (await server.services.identity.users(there)).items] == [
            (ada.id, "owner")
        ]


async def test_a_token_has_no_session_whatever_cookie_comes_along(at: TestServer) -> None:
    browser = await at.browser(at.start.owner_id)
    async with browser:
        assert (await browser.get("/api/session")).status_code == 200
        bearer = {"Authorization": f"Bearer {GENUINE['RS256']()}"}
        assert (await browser.get("/api/session", headers=bearer)).status_code == 401
        switched = {"organization_id": at.start.organization_id}
        assert (await browser.put("/api/session", json=switched, headers=bearer)).status_code == 401
