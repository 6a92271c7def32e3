"""Audit and usage on the command line: tables for people, JSON and exit codes for scripts."""

import asyncio
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.surfaces.cli.frame import FAILED, NOT_FOUND
from tests.support.cli import OperatorCli
from tests.support.services import open_local


@pytest.fixture
def holdfast(sqlite_path: Path) -> OperatorCli:
    return OperatorCli(sqlite_path.parent)


def test_events_are_listed_and_exported(holdfast: OperatorCli) -> None:
    assert holdfast.run("keys", "create", "ci").exit_code == 0
    events = holdfast.json("audit", "list")
    assert {"organization.create", "workspace.create"} <= {event["action"] for event in events}
    (made,) = holdfast.json("audit", "list", "--action", "key.create")
    assert made["resource_id"].startswith("key_") and made["outcome"] == "allowed"
    exported = holdfast.run("audit", "export", "--action", "key")
    assert [json.loads(line)["id"] for line in exported.stdout.splitlines()] == [made["id"]]
    assert "key.create" in holdfast.run("audit", "list").stdout
    assert holdfast.json("audit", "list", "--since", "2999-01-01") == []


def test_verify_succeeds_and_names_what_was_changed(holdfast: OperatorCli, sqlite_path: Path) -> None:
    found = holdfast.json("audit", "verify")
    assert found["intact"] and found["events"] >= 2
    with closing(sqlite3.connect(sqlite_path)) as connection, connection:
        for trigger in ("audit_event_keeps_content", "audit_event_keeps_seal"):
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute("UPDATE audit_event SET actor = 'somebody else' WHERE sequence = 1")
        (event_id,) = connection.execute("SELECT id FROM audit_event WHERE sequence = 1").fetchone()
    result = holdfast.run("audit", "verify")
    assert result.exit_code == FAILED and event_id in result.stdout and "altered" in result.stdout


def test_usage_is_summed(holdfast: OperatorCli) -> None:
    async def use() -> None:
        async with open_local(holdfast.settings) as (services, principal):
            services.usage.count(principal, "requests", 3, source="cli")
            services.usage.count(principal, "cost", 0.25)
            await services.usage.flush()

    assert "Nothing was used" in holdfast.run("usage").stdout
    asyncio.run(use())
    rows = holdfast.json("usage", "--by", "week", "--kind", "requests")
    assert [(row["kind"], row["amount"]) for row in rows] == [("requests", 3)]
    assert "0.25" in holdfast.run("usage").stdout


def test_wrong_words_are_answered_with_one_line(holdfast: OperatorCli) -> None:
    wrong = holdfast.run("audit", "list", "--since", "yesterday")
    assert wrong.exit_code == FAILED and "--since" in wrong.stderr and "Traceback" not in wrong.output
    assert holdfast.run("audit", "list", "--workspace", "nowhere").exit_code == NOT_FOUND


def test_a_head_is_printed_and_expected_again(holdfast: OperatorCli) -> None:
    holdfast.json("status")
    (row,) = holdfast.json("audit", "head")
    printed = holdfast.run("audit", "head").stdout.strip()
    assert printed == row["head"] == f"{row['organization_id']}:{row['sequence']}:{row['hash']}"
    holdfast.json("keys", "create", "--name", "another")
    assert holdfast.json("audit", "verify", "--expect", printed)["intact"]
    other = printed[:-4] + "0000"
    refused = holdfast.run("audit", "verify", "--expect", other)
    assert refused.exit_code == FAILED and "the head that you expect" in refused.stdout
    assert holdfast.run("audit", "verify", "--expect", "nonsense").exit_code == FAILED


def test_a_store_emptied_behind_its_back_is_found(holdfast: OperatorCli, sqlite_path: Path) -> None:
    holdfast.json("status")
    with closing(sqlite3.connect(sqlite_path)) as connection, connection:
        for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        for table in ("audit_event", "audit_head", "audit_key"):
            connection.execute(f"DELETE FROM {table}")
    result = holdfast.run("audit", "verify")
    assert result.exit_code == FAILED and "removed" in result.stdout
    assert holdfast.run("doctor").exit_code == FAILED
    assert holdfast.json("audit", "accept", "--reason", "a test did it")["accepted"]
    found = holdfast.json("audit", "verify")
    assert found["intact"] and any("a test did it" in note for note in found["notes"])


def test_changing_the_master_key_keeps_old_events_verifying(holdfast: OperatorCli) -> None:
    holdfast.json("status")
    before = (holdfast.settings.data_dir / "master.key").read_text()
    assert holdfast.run("secrets", "rekey").exit_code == 0
    assert (holdfast.settings.data_dir / "master.key").read_text() != before
    holdfast.json("keys", "create", "--name", "another")
    assert holdfast.json("audit", "verify")["intact"]


def test_a_master_key_from_a_file_opens_the_audit_key_before_and_after_it_is_put_in_place(
    holdfast: OperatorCli, tmp_path: Path
) -> None:
    old, new = "ab" * 32, "cd" * 32
    holdfast.settings = replace(holdfast.settings, secrets_master_key=old)
    holdfast.json("status")
    (tmp_path / "new").write_text(new)
    assert holdfast.run("secrets", "rekey", "--new-key", str(tmp_path / "new")).exit_code == 0
    # Replicas that still have the old one go on with the same audit key.
    holdfast.json("keys", "create", "--name", "still-old")
    holdfast.settings = replace(holdfast.settings, secrets_master_key=new)
    holdfast.json("keys", "create", "--name", "already-new")
    assert holdfast.json("audit", "verify")["intact"]


def test_a_restored_backup_is_told_and_is_no_forgery(holdfast: OperatorCli, tmp_path: Path) -> None:
    holdfast.json("status")
    made = holdfast.json("backup", str(tmp_path / "copy"))
    for name in ("one", "two", "three"):
        holdfast.json("keys", "create", "--name", name)
    where = ("--data-dir", str(holdfast.settings.data_dir))
    assert holdfast.run("restore", str(tmp_path / "copy"), "--replace", *where).exit_code == 0
    found = holdfast.json("audit", "verify", "--expect", made["audit_heads"][0])
    assert found["intact"] and any("the backup copy was restored" in note for note in found["notes"])
    holdfast.json("keys", "create", "--name", "four")
    assert holdfast.json("audit", "verify")["intact"]
    result = holdfast.run("audit", "verify", "--expect", made["audit_heads"][0][:-3] + "000")
    assert result.exit_code == FAILED


def test_a_store_brought_back_by_hand_is_a_forgery(holdfast: OperatorCli, sqlite_path: Path, tmp_path: Path) -> None:
    holdfast.json("status")
    holdfast.json("backup", str(tmp_path / "copy"))
    holdfast.json("keys", "create", "--name", "one")
    sqlite_path.write_bytes((tmp_path / "copy").read_bytes())
    result = holdfast.run("audit", "verify")
    assert result.exit_code == FAILED and "says the heads file" in result.stdout


def test_a_backup_restored_without_its_master_key_is_unproven_and_not_called_a_forgery(
    holdfast: OperatorCli, tmp_path: Path
) -> None:
    holdfast.json("status")
    holdfast.json("backup", str(tmp_path / "copy"))
    assert holdfast.run("restore", str(tmp_path / "copy"), "--data-dir", str(tmp_path / "new")).exit_code == 0
    elsewhere = OperatorCli(tmp_path / "new")
    result = elsewhere.run("audit", "verify")
    assert result.exit_code == FAILED and "cannot be proven" in result.stdout and "somebody" not in result.stdout
    (tmp_path / "new" / "master.key").write_text((holdfast.settings.data_dir / "master.key").read_text())
    assert elsewhere.json("audit", "verify")["intact"]
