"""The audit trail: appended with the change, sealed in a chain, searched, exported, verified."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from holdfast.core.errors import Forbidden, Invalid
from holdfast.core.principal import Principal
from holdfast.features.audit import store
from holdfast.features.audit.detail import REDACTED, SecretInDetail
from holdfast.features.audit.marks import chain
from holdfast.features.audit.model import AuditFilter, Verification
from holdfast.features.audit.service import Audit
from holdfast.storage.database import Database, Tx
from tests.support.clock import MovableClock
from tests.support.features.audit import audit_trail

OWNER = Principal("org_1", "usr_1", "session", True, frozenset({"management"}), role="owner", name="Ada")
OTHER = Principal("org_2", "usr_2", "session", True, frozenset({"management"}), role="owner", name="Bob")


def note(
    audit: Audit,
    principal: Principal = OWNER,
    count: int = 1,
    *,
    action: str = "thing.made",
    workspace_id: str | None = None,
) -> Callable[[Tx], None]:
    """Work that records `count` events."""

    def work(tx: Tx) -> None:
        for n in range(count):
            audit.record(tx, principal, action, resource="thing", resource_id=f"thing_{n}", workspace_id=workspace_id)

    return work


async def write(
    database: Database,
    audit: Audit,
    principal: Principal = OWNER,
    count: int = 1,
    *,
    action: str = "thing.made",
    workspace_id: str | None = None,
) -> None:
    await database.write(note(audit, principal, count, action=action, workspace_id=workspace_id))


async def tamper(database: Database, *statements: str) -> None:
    """Change rows as somebody would who holds the database and lifts its guards."""

    def work(tx: Tx) -> None:
        if tx.dialect == "postgresql":
            tx.execute("ALTER TABLE audit_event DISABLE TRIGGER ALL")
        else:
            for row in tx.all("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit_event'"):
                tx.execute(f"DROP TRIGGER {row['name']}")
        for statement in statements:
            tx.execute(statement)

    await database.write(work)


async def id_at(database: Database, sequence: int) -> str:
    sql = "SELECT id FROM audit_event WHERE organization_id = 'org_1' AND sequence = :sequence"
    row = await database.read(lambda tx: tx.one(sql, {"sequence": sequence}))
    assert row is not None
    return str(row["id"])


async def sealed(database: Database, count: int = 6) -> Audit:
    audit = audit_trail(database)
    await write(database, audit, count=count)
    await audit.seal()
    return audit


def kinds(found: Verification) -> list[tuple[str, int]]:
    return [(problem.kind, problem.sequence) for problem in found.problems]


async def test_an_event_is_kept_with_the_change_and_lost_with_it(database: Database) -> None:
    audit = audit_trail(database)

    def fails(tx: Tx) -> None:
        audit.record(tx, OWNER, "thing.made", resource="thing", resource_id="thing_1")
        raise Invalid("No.")

    with pytest.raises(Invalid):
        await database.write(fails)
    assert not (await audit.list(OWNER)).items
    await write(database, audit)
    (event,) = (await audit.list(OWNER)).items
    assert (event.actor, event.actor_name, event.action, event.resource_id) == ("usr_1", "Ada", "thing.made", "thing_0")


async def test_an_untouched_chain_verifies_for_each_organization(database: Database) -> None:
    audit = audit_trail(database)
    await write(database, audit, count=5)
    await write(database, audit, OTHER, count=3)
    assert (await audit.verify("org_1")).unsealed == 5
    assert await audit.seal() == 8
    await write(database, audit, count=2)
    await audit.seal()
    found = await audit.verify("org_1")
    assert found.intact and found.events == 7 and found.unsealed == 0
    assert (await audit.verify("org_2")).events == 3
    assert await audit.organizations() == ["org_1", "org_2"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_event SET actor = 'usr_9'",
        "UPDATE audit_event SET hash = NULL",
        "UPDATE audit_event SET sequence = 9",
        "DELETE FROM audit_event",
    ],
)
async def test_the_store_itself_refuses_to_change_events(database: Database, statement: str) -> None:
    audit = await sealed(database, 1)
    with pytest.raises(Exception, match="append-only"):
        await database.write(lambda tx: tx.execute(statement))
    assert (await audit.verify("org_1")).intact


async def test_unsealed_content_cannot_be_changed_either(database: Database) -> None:
    audit = audit_trail(database)
    await write(database, audit)
    with pytest.raises(Exception, match="append-only"):
        await database.write(lambda tx: tx.execute("UPDATE audit_event SET detail = 'x'"))


async def test_an_altered_event_is_named(database: Database) -> None:
    audit = await sealed(database)
    await tamper(database, "UPDATE audit_event SET actor = 'usr_9' WHERE sequence = 3")
    found = await audit.verify("org_1")
    assert kinds(found) == [("altered", 3)]
    assert found.problems[0].event_id == await id_at(database, 3)


async def test_an_altered_event_with_a_fresh_seal_is_named(database: Database) -> None:
    audit = await sealed(database)
    await tamper(database, "UPDATE audit_event SET actor = 'usr_9' WHERE sequence = 3")
    row = (await database.read(lambda tx: store.sealed_after(tx, "org_1", 2, 1)))[0]
    forged = chain.seal_of(row, 3, row["previous_hash"])
    await tamper(database, f"UPDATE audit_event SET hash = '{forged}' WHERE sequence = 3")
    assert kinds(await audit.verify("org_1")) == [("altered", 3)]


async def test_the_last_event_with_a_fresh_seal_is_named(database: Database) -> None:
    await sealed(database, 2)
    await tamper(database, "UPDATE audit_head SET hash = 'other'")
    assert kinds(await audit_trail(database).verify("org_1")) == [("altered", 2)]


@pytest.mark.parametrize(("where", "first"), [("sequence = 1", 1), ("sequence = 3", 3), ("sequence IN (5, 6)", 5)])
async def test_removed_events_are_noticed_wherever_they_stood(database: Database, where: str, first: int) -> None:
    audit = await sealed(database)
    await tamper(database, f"DELETE FROM audit_event WHERE {where}")
    assert kinds(await audit.verify("org_1")) == [("removed", first)]


async def test_a_whole_chain_removed_is_noticed(database: Database) -> None:
    audit = await sealed(database)
    await tamper(database, "DELETE FROM audit_event")
    found = await audit.verify("org_1")
    assert kinds(found) == [("removed", 1)] and "1 to 6" in found.problems[0].message


async def test_a_removed_head_is_noticed(database: Database) -> None:
    audit = await sealed(database)
    await tamper(database, "DELETE FROM audit_head")
    assert kinds(await audit.verify("org_1")) == [("removed", 6)]


async def test_reordered_events_are_named(database: Database) -> None:
    audit = await sealed(database)
    await tamper(
        database,
        "UPDATE audit_event SET sequence = 99 WHERE sequence = 2",
        "UPDATE audit_event SET sequence = 2 WHERE sequence = 4",
        "UPDATE audit_event SET sequence = 4 WHERE sequence = 99",
    )
    found = await audit.verify("org_1")
    assert kinds(found) == [("reordered", 2), ("reordered", 4)]


async def test_swapped_contents_are_named(database: Database) -> None:
    audit = await sealed(database)
    await tamper(
        database,
        "UPDATE audit_event SET resource_id = 'thing_3' WHERE sequence = 2",
        "UPDATE audit_event SET resource_id = 'thing_1' WHERE sequence = 4",
    )
    assert kinds(await audit.verify("org_1")) == [("altered", 2), ("altered", 4)]


async def test_an_event_slipped_in_behind_the_head_is_noticed(database: Database) -> None:
    audit = await sealed(database, 3)
    await tamper(database, "UPDATE audit_head SET sequence = 2")
    assert kinds(await audit.verify("org_1")) == [("added", 3)]


async def test_a_long_chain_is_verified_in_parts(database: Database) -> None:
    audit = audit_trail(database)
    await write(database, audit, count=2300)
    assert await audit.seal() == 2300
    found = await audit.verify("org_1")
    assert found.intact and found.events == 2300


async def test_two_sealers_at_once_leave_one_chain(database: Database) -> None:
    first, second = audit_trail(database), audit_trail(database)

    async def busy(audit: Audit) -> None:
        for _ in range(20):
            await write(database, audit)
            await audit.seal()

    await asyncio.gather(busy(first), busy(second))
    await first.seal()
    found = await first.verify("org_1")
    assert found.intact and found.events == 40


async def test_the_sealer_seals_without_being_asked(database: Database) -> None:
    audit = audit_trail(database)
    running = asyncio.create_task(audit.run())
    await write(database, audit)
    async with asyncio.timeout(30):
        while (await audit.verify("org_1")).unsealed:
            await asyncio.sleep(0.01)
    await write(database, audit)
    await audit.stop()
    await running
    found = await audit.verify("org_1")
    assert found.intact and found.events == 2 and found.unsealed == 0


async def test_repeated_denials_become_one_event_with_their_number(database: Database, clock: MovableClock) -> None:
    audit = audit_trail(database, clock)

    async def deny(principal: Principal = OWNER) -> None:
        await audit.record_denied(principal, "key.create", resource="key", resource_id="*", reason="scope")

    for _ in range(6):
        await deny()
    await deny(OTHER)
    assert [event.times for event in (await audit.list(OWNER)).items] == [1]
    clock.advance(seconds=61)
    await deny()
    await audit.stop()
    events = (await audit.list(OWNER)).items
    assert [event.times for event in events] == [6, 1]
    assert {event.outcome for event in events} == {"denied"}
    assert [event.times for event in (await audit.list(OTHER)).items] == [1]


async def test_events_are_found_by_every_filter(database: Database, clock: MovableClock) -> None:
    audit = audit_trail(database, clock)
    await write(database, audit, action="workspace.secret.set", workspace_id="ws_1")
    clock.advance(seconds=10)
    await write(database, audit, replace(OWNER, actor="key_1"), action="workspace.secrets_seen", workspace_id="ws_2")
    await audit.record_denied(OWNER, "key.create", resource="key", resource_id="*")

    async def actions(wanted: AuditFilter) -> list[str]:
        return [event.action for event in (await audit.list(OWNER, wanted)).items]

    assert await actions(AuditFilter(action="workspace.secret")) == ["workspace.secret.set"]
    assert await actions(AuditFilter(action="workspace")) == ["workspace.secrets_seen", "workspace.secret.set"]
    assert await actions(AuditFilter(actor="key_1")) == ["workspace.secrets_seen"]
    assert await actions(AuditFilter(workspace_id="ws_1")) == ["workspace.secret.set"]
    assert await actions(AuditFilter(outcome="denied")) == ["key.create"]
    assert await actions(AuditFilter(resource="thing", resource_id="thing_0", until=clock.now())) == [
        "workspace.secret.set"
    ]
    assert await actions(AuditFilter(since=clock.now())) == ["key.create", "workspace.secrets_seen"]
    assert await actions(AuditFilter(actor="usr_2")) == []


async def test_pages_follow_each_other_without_gaps(database: Database) -> None:
    audit = audit_trail(database)
    await write(database, audit, count=7)
    seen, cursor = [], None
    while True:
        page = await audit.list(OWNER, cursor=cursor, limit=3)
        seen += [event.resource_id for event in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [f"thing_{n}" for n in reversed(range(7))]


async def test_nobody_sees_another_organization_or_project(database: Database) -> None:
    audit = audit_trail(database)
    await write(database, audit, OTHER)
    await write(database, audit, replace(OWNER, project_id="proj_1"), action="in.project")
    await write(database, audit, workspace_id="ws_1", action="in.workspace")
    assert len((await audit.list(OWNER)).items) == 2
    confined = replace(OWNER, project_id="proj_1")
    assert [event.action for event in (await audit.list(confined)).items] == ["in.project"]
    narrow = replace(OWNER, workspace_ids=frozenset({"ws_1"}))
    assert [event.action for event in (await audit.list(narrow)).items] == ["in.workspace"]
    assert not (await audit.list(replace(OWNER, workspace_ids=frozenset()))).items
    with pytest.raises(Forbidden, match="management"):
        await audit.list(replace(OWNER, scopes=frozenset({"read"})))


async def test_the_export_has_a_json_line_for_every_event(database: Database) -> None:
    audit = audit_trail(database)
    await write(database, audit, count=1203)
    lines = [line async for line in audit.export(OWNER)]
    assert len(lines) == 1203 and all(line.endswith("\n") for line in lines)
    first = json.loads(lines[0])
    assert first["resource_id"] == "thing_1202" and first["at"].endswith("Z") and first["detail"] == {}


async def test_a_secret_never_enters_the_trail(database: Database) -> None:
    audit = audit_trail(database)

    for name in ("password", "api_key", "Authorization", "client_secret", "refreshToken"):
        with pytest.raises(SecretInDetail, match=name):
            detail: dict[str, object] = {"deep": [{name: "hunter2"}]}
            record = partial(audit.record, principal=OWNER, action="x.y", resource="x", resource_id="1", detail=detail)
            await database.write(record)
    allowed: dict[str, object] = {
        "password": REDACTED,
        "tokens_in": 12,
        "has_password": True,
        "secret_name": "GITHUB_TOKEN",
        "token_prefix": "xero_abc",
        "note": "it is ghp_" + "a1B2" * 9,
    }
    await database.write(lambda tx: audit.record(tx, OWNER, "x.y", resource="x", resource_id="1", detail=allowed))
    (event,) = (await audit.list(OWNER)).items
    assert event.detail == allowed | {"note": REDACTED}


async def test_odd_text_from_callers_is_kept_readable(database: Database) -> None:
    audit = audit_trail(database)
    odd = "a\x00b\ud800" + "x" * 1000
    await database.write(
        lambda tx: audit.record(
            tx, OWNER, "x.y", resource="x", resource_id=odd, detail={"text": odd, "big": ["y" * 99] * 999}
        )
    )
    await audit.seal()
    (event,) = (await audit.list(OWNER)).items
    assert event.resource_id.startswith("a�b?") and len(event.resource_id) < 500
    assert "cut" in event.detail
    assert (await audit.verify("org_1")).intact
