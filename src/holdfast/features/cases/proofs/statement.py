"""Owns statements: an in-toto statement of a test result about a commit, in a DSSE envelope."""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.clock import iso_or_none
from holdfast.core.errors import Invalid
from holdfast.features.cases.model import Case
from holdfast.features.cases.proofs.model import Proof, ProofRun

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
MAX_STATEMENT = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature of an envelope."""

    keyid: str
    sig: bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    """A signed payload, as DSSE has it."""

    payload: bytes
    signatures: tuple[Signature, ...]

    def as_json(self) -> dict[str, Any]:
        """The envelope on the wire."""
        return {
            "payloadType": PAYLOAD_TYPE,
            "payload": base64.b64encode(self.payload).decode(),
            "signatures": [
                {"keyid": each.keyid, "sig": base64.b64encode(each.sig).decode()} for each in self.signatures
            ],
        }


def statement_of(case: Case, proof: Proof, run: ProofRun) -> bytes:
    """What our runner saw, as an in-toto statement; the same run always reads the same."""
    passed = [test.name for test in run.tests if test.outcome == "passed"]
    failed = [test.name for test in run.tests if test.outcome in ("failed", "missing")]
    skipped = [test.name for test in run.tests if test.outcome == "skipped"]
    value = {
        "_type": STATEMENT,
        "subject": [{"name": case.repository or case.id, "digest": {"gitCommit": run.commit}}],
        "predicateType": PREDICATE,
        "predicate": {
            "result": "PASSED" if run.outcome == "passed" else "FAILED",
            "configuration": [
                {
                    "name": "command",
                    "content": base64.b64encode(proof.command.encode()).decode(),
                    "mediaType": "text/plain",
                    "annotations": {
                        "expectedExitCode": proof.expected_exit,
                        "exitCode": run.exit_code,
                        "outcome": run.outcome,
                        "said": run.said,
                        "side": run.side,
                        "isReproduction": proof.is_reproduction,
                        "namedTests": list(proof.tests),
                        "seconds": run.seconds,
                        "endedAt": iso_or_none(run.ended_at),
                    },
                },
                {"name": "environment", "annotations": dict(run.environment)},
                {"name": "output", "digest": {"sha256": run.output_digest}, "annotations": {"bytes": run.output_bytes}},
                {
                    "name": "case",
                    "uri": f"zero://cases/{case.id}",
                    "annotations": {
                        "title": case.title,
                        "proof": proof.id,
                        "run": run.id,
                        "criteria": [each.text for each in case.criteria if each.id in proof.criteria],
                    },
                },
            ],
            "passedTests": passed,
            "warnedTests": skipped,
            "failedTests": failed,
        },
    }
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def encoding(payload: bytes) -> bytes:
    """What is signed of an envelope (DSSE's pre-authentication encoding)."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def envelope_of(payload: bytes, signatures: Sequence[Signature]) -> Envelope:
    """A payload with its signatures."""
    return Envelope(payload, tuple(signatures))


def read_envelope(text: str) -> tuple[Envelope, dict[str, Any]]:
    """An envelope that somebody brings, and the statement in it; Invalid where either is something else."""
    if len(text) > MAX_STATEMENT:
        raise Invalid(f"The statement is over {MAX_STATEMENT >> 20} MiB.")
    try:
        value = json.loads(text)
        if value["payloadType"] != PAYLOAD_TYPE:
            raise Invalid(f"The envelope holds {str(value['payloadType'])[:100]!r}, not {PAYLOAD_TYPE!r}.")
        payload = base64.b64decode(value["payload"], validate=True)
        signatures = [
            Signature(str(each.get("keyid", "")), base64.b64decode(each["sig"], validate=True))
            for each in value["signatures"]
        ]
        statement = json.loads(payload)
        right = statement["_type"] == STATEMENT and statement["predicateType"] == PREDICATE
        subjects = statement["subject"]
        named = isinstance(subjects, list) and all(isinstance(each["digest"]["gitCommit"], str) for each in subjects)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error):
        raise Invalid("This is no signed in-toto statement: a DSSE envelope in JSON is expected.") from None
    if not right or not named or not subjects:
        raise Invalid(f"The statement is not an in-toto v1 statement of a test result ({PREDICATE}) about a commit.")
    return Envelope(payload, tuple(signatures)), statement
