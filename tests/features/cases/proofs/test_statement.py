"""Owns the proof that statements are in-toto's and DSSE's, and that nothing changed in one passes."""

import base64
import json
from dataclasses import replace

import pytest
from securesystemslib.dsse import Envelope as Oracle
from securesystemslib.signer._key import SSlibKey

from holdfast.core.errors import Invalid
from holdfast.engines.master_key import KeyRing
from holdfast.features.cases.proofs.keys import SigningKeys, read_public_key, verified
from holdfast.features.cases.proofs.statement import read_envelope, statement_of
from holdfast.storage.database import Database
from tests.support.clock import MovableClock
from tests.support.features.audit import MASTER_KEY, NOWHERE
from tests.support.features.cases import case_stage, seen_to_pass

COMMIT = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


async def _signed(database: Database, clock: MovableClock) -> tuple[str, str]:
    """A statement of a run, and the public key."""
    stage = await case_stage(database, clock)
    case = replace(await stage.add("Add up", criteria=("It adds",)), repository="calc")
    proof, run = seen_to_pass(case, COMMIT)
    key = await stage.services[SigningKeys].current()
    return json.dumps(key.sign(statement_of(case, proof, run)).as_json()), key.pem


@pytest.mark.contract("ZE-5")
async def test_securesystemslib_agrees_with_the_signature(database: Database, clock: MovableClock) -> None:
    text, pem = await _signed(database, clock)
    value = json.loads(text)
    keyid = value["signatures"][0]["keyid"]
    raw = read_public_key(pem).public_bytes_raw().hex()
    key = SSlibKey(keyid, "ed25519", "ed25519", {"public": raw})
    oracle = Oracle.from_dict(value)
    assert oracle.verify([key], 1)
    assert json.loads(oracle.payload) == json.loads(base64.b64decode(value["payload"]))


async def test_a_statement_says_what_was_seen_at_which_commit(database: Database, clock: MovableClock) -> None:
    text, pem = await _signed(database, clock)
    envelope, statement = read_envelope(text)
    assert verified(envelope, [read_public_key(pem)]) is not None
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert statement["subject"] == [{"name": "calc", "digest": {"gitCommit": COMMIT}}]
    predicate = statement["predicate"]
    assert (predicate["result"], predicate["passedTests"], predicate["failedTests"]) == ("PASSED", ["test_sum"], [])


async def test_what_was_changed_or_signed_by_another_does_not_pass(database: Database, clock: MovableClock) -> None:
    text, pem = await _signed(database, clock)
    keys = [read_public_key(pem)]
    value = json.loads(text)
    payload = base64.b64decode(value["payload"]).replace(b"PASSED", b"FAILED")
    forged = {**value, "payload": base64.b64encode(payload).decode()}
    assert verified(read_envelope(json.dumps(forged))[0], keys) is None
    nobody = {**value, "signatures": []}
    assert verified(read_envelope(json.dumps(nobody))[0], keys) is None
    short = {**value, "signatures": [{"keyid": "", "sig": base64.b64encode(b"short").decode()}]}
    assert verified(read_envelope(json.dumps(short))[0], keys) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"payloadType": "text/plain", "payload": "", "signatures": []}',
        '{"payloadType": "application/vnd.in-toto+json", "payload": "!!", "signatures": []}',
        '{"payloadType": "application/vnd.in-toto+json", "payload": "e30=", "signatures": []}',
        "[" * 100_000,
    ],
)
def test_what_is_no_statement_is_refused_in_words(text: str) -> None:
    with pytest.raises(Invalid, match=r"statement|envelope"):
        read_envelope(text)


async def test_a_key_survives_a_restart_and_a_lost_master_key_makes_another(
    database: Database, clock: MovableClock
) -> None:
    await case_stage(database, clock)
    ring = KeyRing(NOWHERE, MASTER_KEY)
    first = await SigningKeys(database, ring, clock).current()
    assert (await SigningKeys(database, ring, clock).current()).id == first.id
    clock.advance(seconds=1)
    other = SigningKeys(database, KeyRing(NOWHERE, "ab" * 32), clock)
    second = await other.current()
    assert [key.id for key in await other.public()] == [second.id, first.id]
