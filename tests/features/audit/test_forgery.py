"""What somebody who holds the database but not the key can do to the audit trail, and that verify finds it."""

import hmac
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from holdfast.core.errors import Forbidden, Invalid, Unavailable
from holdfast.engines.master_key import KeyRing
from holdfast.features.audit import store
from holdfast.features.audit.marks import chain
from holdfast.features.audit.marks.heads_file import HeadsFile
from holdfast.features.audit.marks.keys import MARKED, AuditKey
from holdfast.features.audit.model import expected_head
from holdfast.features.audit.service import Audit
from holdfast.storage.database import Database, Row, Tx
from holdfast.storage.sqlite import SqliteDatabase
from tests.features.audit.test_audit import OTHER, OWNER, kinds, tamper, write
from tests.support.features.audit import audit_trail

CONTENT = (
    "organization_id, project_id, workspace_id, at, actor, actor_name, proof, action, resource, resource_id, outcome, "
    "times, detail, key_id, mac"
)


@pytest.fixture
async def audit(database: Database, tmp_path: Path) -> Audit:
    """A chain of six sealed events with a heads file."""
    made = audit_trail(database, directory=tmp_path)
    await write(database, made, count=6)
    await made.close()
    return made


async def rechain(database: Database, organization_id: str = "org_1") -> None:
    """Number and seal every row again and move the head to the last, as whoever knows the code can."""

    def work(tx: Tx) -> None:
        sql = "SELECT * FROM audit_event WHERE organization_id = :id AND sequence IS NOT NULL ORDER BY sequence"
        rows = tx.all(sql, {"id": organization_id})
        seals = list(chain.seals(rows, 0, chain.GENESIS))
        tx.execute("UPDATE audit_event SET sequence = -number WHERE organization_id = :id", {"id": organization_id})
        store.seal(tx, seals)
        if seals:
            tx.execute(
                "UPDATE audit_head SET sequence = :sequence, hash = :hash WHERE organization_id = :id",
                {"sequence": seals[-1]["sequence"], "hash": seals[-1]["hash"], "id": organization_id},
            )

    await database.write(work)


async def head_row(database: Database) -> Row:
    row = await database.read(lambda tx: store.head(tx, "org_1"))
    assert row is not None
    return row


@pytest.mark.parametrize("sequence", ["0", "-3", "NULL"])
async def test_a_row_planted_outside_the_chain_is_found(database: Database, audit: Audit, sequence: str) -> None:
    await tamper(
        database,
        f"INSERT INTO audit_event (id, {CONTENT}, sequence, previous_hash, hash) SELECT 'aud_planted', {CONTENT}, "
        f"{sequence}, previous_hash, hash FROM audit_event WHERE sequence = 2",
    )
    found = await audit.verify("org_1")
    assert ("added", 0) in kinds(found) and "aud_planted" in found.problems[0].message


@pytest.mark.parametrize("mark", ["NULL, NULL", "key_id, mac", "'0000', mac"])
async def test_a_row_planted_to_be_sealed_is_found_before_and_after(
    database: Database, audit: Audit, mark: str
) -> None:
    columns = CONTENT.removesuffix(", key_id, mac")
    await tamper(
        database,
        f"INSERT INTO audit_event (id, {CONTENT}) SELECT 'aud_planted', {columns}, {mark} "
        "FROM audit_event WHERE sequence = 2",
    )
    before = await audit.verify("org_1")
    assert len(before.problems) == 1 and before.problems[0].event_id == "aud_planted"
    await audit.seal()
    after = await audit.verify("org_1")
    assert [problem.event_id for problem in after.problems] == ["aud_planted"]


@pytest.mark.parametrize(
    "edit", ["actor = 'usr_9'", "detail = '{\"a\":1}'", "at = at + 1", "times = 2", "project_id = 'p'", "mac = NULL"]
)
async def test_an_edited_tail_that_is_not_sealed_yet_is_found(database: Database, audit: Audit, edit: str) -> None:
    await write(database, audit)
    await tamper(database, f"UPDATE audit_event SET {edit} WHERE hash IS NULL")
    assert len((await audit.verify("org_1")).problems) == 1
    await audit.seal()
    assert len((await audit.verify("org_1")).problems) == 1


async def test_a_tail_cut_off_with_the_head_moved_back_is_found(database: Database, audit: Audit) -> None:
    await tamper(
        database,
        "DELETE FROM audit_event WHERE sequence > 4",
        "UPDATE audit_head SET sequence = 4, hash = (SELECT hash FROM audit_event WHERE sequence = 4)",
    )
    assert ("removed", 5) in kinds(await audit.verify("org_1"))


async def test_a_tail_cut_off_with_an_old_head_put_back_is_found_by_the_heads_file(
    database: Database, tmp_path: Path
) -> None:
    audit = audit_trail(database, directory=tmp_path)
    await write(database, audit, count=4)
    await audit.close()
    old = await head_row(database)
    await write(database, audit, count=2)
    await audit.close()
    await tamper(database, "DELETE FROM audit_event WHERE sequence > 4")
    await database.write(lambda tx: store.move_head(tx, dict(old)))
    found = await audit.verify("org_1")
    assert kinds(found) == [("removed", 5)] and "went on to 6" in found.problems[0].message
    # What is written afterwards covers nothing up.
    await write(database, audit, count=5)
    await audit.close()
    assert ("altered", 6) in kinds(await audit.verify("org_1"))


@pytest.mark.parametrize("also", [(), ("DELETE FROM audit_key", "DELETE FROM audit_checkpoint")])
async def test_everything_deleted_is_found(
    database: Database, audit: Audit, tmp_path: Path, also: tuple[str, ...]
) -> None:
    await tamper(database, "DELETE FROM audit_event", "DELETE FROM audit_head", *also)
    assert await audit.organizations() == ["org_1"]
    assert ("removed", 1) in kinds(await audit.verify("org_1"))
    fresh = audit_trail(database, directory=tmp_path)
    await write(database, fresh, count=9)
    await fresh.close()
    assert not (await fresh.verify("org_1")).intact


async def test_rows_sealed_anew_by_somebody_are_found(database: Database, audit: Audit) -> None:
    await tamper(database, "DELETE FROM audit_event WHERE sequence = 3")
    await rechain(database)
    without_file = audit_trail(database)
    assert kinds(await without_file.verify("org_1")) == [("altered", 5)]
    assert not (await audit.verify("org_1")).intact


async def test_the_sealer_vouches_for_no_head_that_it_did_not_write(database: Database, audit: Audit) -> None:
    await tamper(database, "DELETE FROM audit_event WHERE sequence = 3")
    await rechain(database)
    await write(database, audit, count=2)
    await write(database, audit, OTHER, count=2)
    assert await audit.seal() == 2
    found = await audit.verify("org_1")
    assert not found.intact and found.unsealed == 2
    assert (await audit.verify("org_2")).intact


async def test_a_key_taken_away_gives_nobody_a_fresh_start(database: Database, audit: Audit, tmp_path: Path) -> None:
    await tamper(
        database,
        f"INSERT INTO audit_event (id, {CONTENT}) SELECT 'aud_planted', {CONTENT} FROM audit_event WHERE sequence = 2",
        "DELETE FROM audit_key",
        "DELETE FROM audit_checkpoint",
    )
    fresh = audit_trail(database, directory=tmp_path)
    await fresh.prepare()
    found = await fresh.verify("org_1")
    assert any("gone from the store" in problem.message for problem in found.problems)


async def test_events_marked_by_a_lost_key_are_unproven_until_accepted(
    database: Database, audit: Audit, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "another machine"
    other = Audit(database, KeyRing(elsewhere, "ab" * 32), elsewhere)
    await other.prepare()
    await write(database, other)
    await other.seal()
    found = await other.verify("org_1")
    assert {problem.kind for problem in found.problems} == {"unproven"}
    assert "bring the right one back" in found.problems[0].message
    await other.accept(OWNER, "the master key is lost")
    found = await other.verify("org_1")
    assert found.intact and found.unsealed == 0 and "the master key is lost" in " ".join(found.notes)


async def test_a_word_that_cannot_be_written_down_is_not_taken(database: Database) -> None:
    audit = audit_trail(database)
    await write(database, audit)
    with pytest.raises(Unavailable, match="could not be written"):
        await audit.accept(OWNER, "no")


async def test_an_accepted_chain_goes_on_and_says_so(database: Database, audit: Audit) -> None:
    await tamper(database, "UPDATE audit_event SET actor = 'usr_9' WHERE sequence = 3")
    await rechain(database)
    with pytest.raises(Forbidden):
        await audit.accept(OTHER.__class__("org_1", "usr_1", "session", True, OWNER.scopes, role="admin"), "no")
    await audit.accept(OWNER, "looked into it with Bob")
    found = await audit.verify("org_1")
    assert found.intact and "looked into it with Bob" in " ".join(found.notes)
    await write(database, audit)
    await audit.close()
    await tamper(database, "UPDATE audit_event SET actor = 'usr_9' WHERE sequence = 8")
    assert kinds(await audit.verify("org_1")) == [("altered", 8)]


async def test_a_head_kept_elsewhere_must_lie_on_the_chain(database: Database, audit: Audit) -> None:
    (head,) = await audit.heads()
    _, witness = expected_head(str(head))
    await write(database, audit, count=3)
    await audit.seal()
    assert (await audit.verify("org_1", [witness])).intact
    _, other = expected_head(f"org_1:6:{'0' * 64}")
    assert kinds(await audit.verify("org_1", [other])) == [("altered", 6)]
    _, beyond = expected_head(f"org_1:60:{'0' * 64}")
    assert kinds(await audit.verify("org_1", [beyond])) == [("removed", 10)]
    for wrong in ("", "org_1", "org_1:0:" + "0" * 64, "org_1:5:xyz", ":5:" + "0" * 64):
        with pytest.raises(Invalid, match="expected head"):
            expected_head(wrong)


async def test_the_heads_file_is_written_marked_and_survives_a_torn_line(
    database: Database, audit: Audit, tmp_path: Path
) -> None:
    path = tmp_path / "audit.heads"
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("a") as file:
        file.write('{"kind":"head","sto')
    assert (await audit.verify("org_1")).intact
    await write(database, audit)
    await audit.close()
    lines = path.read_text().splitlines()
    assert len(lines) == 2 and (await audit.verify("org_1")).intact
    path.write_text(f"{lines[0]}\nnonsense\n{lines[1]}\n")
    found = await audit.verify("org_1")
    assert kinds(found) == [("altered", 0)] and "1 lines" in found.problems[0].message
    forged = json.loads(lines[-1]) | {"sealed_at": 1}
    path.write_text(json.dumps(forged) + "\n")
    assert "did not write" in (await audit.verify("org_1")).problems[0].message


async def test_a_missing_heads_file_is_said_and_is_no_problem(database: Database, audit: Audit, tmp_path: Path) -> None:
    (tmp_path / "audit.heads").unlink()
    found = await audit.verify("org_1")
    assert found.intact and "no heads file" in found.notes[0]


async def test_the_heads_file_stays_small_and_keeps_what_matters(
    database: Database, audit: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.features.audit.marks.heads_file.MAX_BYTES", 20_000)
    monkeypatch.setattr("holdfast.features.audit.marks.heads_file._KEPT_LINES", 20)
    file = HeadsFile(tmp_path, database.dialect)
    for _ in range(150):
        await write(database, audit)
        await audit.close()
    assert file.path.stat().st_size < 30_000
    known = file.read()
    assert known.heads[0][0].sequence == 6 and known.heads[-1][0].sequence == 156
    assert (await audit.verify("org_1")).intact


async def test_events_from_before_marks_are_fixed_by_a_checkpoint(database: Database, tmp_path: Path) -> None:
    old = audit_trail(database)
    await write(database, old, count=5)
    await old.seal()
    await write(database, old, count=2)

    def unmark(tx: Tx) -> None:
        rows = [dict(row) | {"key_id": None, "mac": None} for row in store.sealed_after(tx, "org_1", 0, 10)]
        seals = list(chain.seals(rows, 0, chain.GENESIS))
        tx.execute("UPDATE audit_event SET key_id = NULL, mac = NULL, sequence = NULL, hash = NULL")
        store.seal(tx, seals)
        last = seals[-1]
        row = {"organization_id": "org_1", "sealed_at": 1, "key_id": None, "mac": None}
        store.move_head(tx, row | {"sequence": last["sequence"], "hash": last["hash"]})
        tx.execute("DELETE FROM audit_key")

    await tamper(database)
    await database.write(unmark)
    audit = audit_trail(database, directory=tmp_path)
    await audit.prepare()
    await write(database, audit, count=2)
    await audit.close()
    found = await audit.verify("org_1")
    assert found.intact and found.events == 9
    # Nothing new passes for old, and nothing old can be changed any more.
    await tamper(database, "UPDATE audit_event SET key_id = NULL, mac = NULL WHERE sequence = 8")
    await rechain(database)
    assert ("added", 8) in kinds(await audit.verify("org_1"))
    await tamper(database, "UPDATE audit_checkpoint SET sequence = 9")
    assert not (await audit.verify("org_1")).intact


async def test_an_old_event_edited_and_sealed_anew_is_found(database: Database, tmp_path: Path) -> None:
    await test_events_from_before_marks_are_fixed_by_a_checkpoint(database, tmp_path)
    audit = audit_trail(database)
    await tamper(database, "UPDATE audit_event SET actor = 'usr_9' WHERE sequence = 2")
    await rechain(database)
    assert not (await audit.verify("org_1")).intact


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO audit_event (id, organization_id, at, actor, actor_name, proof, action, resource, resource_id, "
        "outcome, times, detail) VALUES ('x', 'o', 1, 'a', 'a', 'p', 'x', 'r', 'i', 'allowed', 1, '{}')",
        "UPDATE audit_event SET sequence = 0",
        "UPDATE audit_event SET mac = 'x'",
    ],
)
async def test_the_store_itself_refuses_events_without_a_mark_or_place(database: Database, statement: str) -> None:
    await write(database, audit_trail(database))
    with pytest.raises(Exception, match="audit events"):
        await database.write(lambda tx: tx.execute(statement))


async def test_two_replicas_share_one_key(database: Database) -> None:
    first, second = audit_trail(database), audit_trail(database)
    await first.prepare()
    await second.prepare()
    await write(database, first)
    await write(database, second)
    await first.seal()
    rows = await database.read(lambda tx: tx.all("SELECT DISTINCT key_id FROM audit_event"))
    assert len(rows) == 1 and (await second.verify("org_1")).intact


@pytest.mark.parametrize("value", ["CAST(x'ff' AS TEXT)", "x'ff'", "x'7573725f31'", "1.5"])
@pytest.mark.parametrize("column", ["actor", "detail", "sequence", "at", "mac"])
async def test_values_of_a_kind_that_we_never_write_are_found(
    sqlite_database: SqliteDatabase, tmp_path: Path, column: str, value: str
) -> None:
    audit = audit_trail(sqlite_database, directory=tmp_path)
    await write(sqlite_database, audit, count=4)
    await audit.close()
    await tamper(sqlite_database, f"UPDATE audit_event SET {column} = {value} WHERE sequence = 3")
    assert not (await audit.verify("org_1")).intact


async def test_a_server_says_at_its_start_that_a_chain_was_cut(
    database: Database, audit: Audit, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await audit_trail(database, directory=tmp_path).close()
    assert not caplog.records
    await tamper(
        database,
        "DELETE FROM audit_event WHERE sequence > 4",
        "UPDATE audit_head SET sequence = 4, hash = (SELECT hash FROM audit_event WHERE sequence = 4)",
    )
    await audit_trail(database, directory=tmp_path).close()
    assert any("is not the one that" in record.getMessage() for record in caplog.records)


def test_a_mark_is_an_hmac_over_every_content_column() -> None:
    event = {name: f"some {name}" for name in MARKED} | {"at": 5, "times": 1, "project_id": None}
    derived = HKDFExpand(SHA256(), 32, b"holdfast audit event").derive(bytes.fromhex("ab" * 32))
    text = json.dumps([event[name] for name in MARKED], separators=(",", ":"))
    key = AuditKey("ab" * 32)
    assert key.mark(event) == hmac.digest(derived, text.encode(), "sha256").hex()
    assert "ab" * 8 not in repr(key)
    content = {"number", "sequence", "previous_hash", "hash", "key_id", "mac", *MARKED}
    assert content == {name.strip() for name in store._COLUMNS.split(",")}
