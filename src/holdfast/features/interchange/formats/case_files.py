"""Owns the export files of cases: each with its criteria, links, proofs, comments and history, and back."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from holdfast.features.cases.model import (
    MAX_BODY,
    MAX_COMMENT,
    MAX_CRITERION,
    MAX_REASON,
    Case,
    CaseClaim,
    Comment,
    Criterion,
    HistoryEntry,
    NewLink,
)
from holdfast.features.cases.proofs.model import MAX_CLAIM, MAX_COMMAND, Proof
from holdfast.features.interchange.formats.fields import Fields, MalformedExport, bounded
from holdfast.features.interchange.formats.records import Names, RecordForm
from holdfast.features.interchange.model import Item, KeptCase

_HERE = "it is that of the workspace which takes it in"
_THEIR_CASE = "it stands in that case's file"
_NAMING = {"case_id": "case", "proof_id": "proof", "comment_id": "comment"}
"""What a history's details name by id, each field with the type of the thing."""
_MAX_DETAIL = 1_000_000

CRITERION = RecordForm(Criterion, {}, ids=frozenset(), most={"text": MAX_CRITERION})
CLAIM = RecordForm(CaseClaim, {}, ids=frozenset())
LINK = RecordForm(NewLink, {}, ids=frozenset({"case_id"}))
CASE = RecordForm(
    Case,
    {"workspace_id": _HERE, "body": "it is the body of the file"},
    renamed={"last_claim": "claim"},
    ids=frozenset({"id", "parent"}),
    most={"reason": MAX_REASON},
    parts={"criteria": CRITERION, "last_claim": CLAIM},
)
COMMENT = RecordForm(Comment, {"case_id": _THEIR_CASE}, most={"text": MAX_COMMENT})
HISTORY = RecordForm(HistoryEntry, {}, most={"reason": MAX_REASON, "detail": _MAX_DETAIL})
PROOF = RecordForm(
    Proof,
    {"workspace_id": _HERE, "case_id": _THEIR_CASE},
    ids=frozenset({"id", "artifact_id"}),
    most={"claim": MAX_CLAIM, "command": MAX_COMMAND},
)
FORMS: tuple[RecordForm[Any], ...] = (CRITERION, CLAIM, LINK, CASE, COMMENT, HISTORY, PROOF)


def case_front(kept: KeptCase, names: Names) -> tuple[dict[str, Any], str]:
    """A case as front matter and body. Its links are those that were told of it, not those told of others."""
    front = {"holdfast": "case", **CASE.dump(kept.case, names)}
    links = sorted((LINK.dump(each, names) for each in kept.links), key=lambda each: (each["type"], each["case_id"]))
    # Ids here may differ from those of the origin; the order of things said at one moment must not.
    comments = sorted(kept.comments, key=lambda each: (each.at, names(each.id)))
    proofs = sorted(kept.proofs, key=lambda each: (each.created_at, names(each.id)))
    history = (replace(each, detail=renamed(each.detail, lambda type, id: names(id))) for each in kept.history)
    lists = {
        "links": links,
        "proofs": [PROOF.dump(each, names) for each in proofs],
        "comments": [COMMENT.dump(each, names) for each in comments],
        "history": [HISTORY.dump(each, names) for each in history],
    }
    return front | {name: rows for name, rows in lists.items() if rows}, kept.case.body


def read_case(file: str, fields: Fields, body: str) -> list[Item]:
    """What a file of ours says of a case."""
    case = CASE.load(fields, workspace_id="", body=bounded(body, "the body", MAX_BODY))
    if (case.state == "BLOCKED") != (case.blocked_from is not None):
        raise MalformedExport("the field blocked_from does not fit the state")
    history = tuple(map(HISTORY.load, fields.records("history")))
    kept = KeptCase(
        file,
        case,
        links=tuple(map(LINK.load, fields.records("links"))),
        proofs=tuple(PROOF.load(each, workspace_id="", case_id=case.id) for each in fields.records("proofs")),
        comments=tuple(COMMENT.load(each, case_id=case.id) for each in fields.records("comments")),
        history=history,
    )
    return [kept]


def renamed(detail: Mapping[str, Any], name: Callable[[str, str], str]) -> dict[str, Any]:
    """A history's details with other ids for the things that they name."""
    return {
        key: name(_NAMING[key], value) if key in _NAMING and isinstance(value, str) else value
        for key, value in detail.items()
    }
