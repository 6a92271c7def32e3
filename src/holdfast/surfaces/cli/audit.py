"""Owns `holdfast audit`."""

from typing import Any

import click

from holdfast.core.clock import iso, parse_time
from holdfast.features.audit.model import AuditFilter, Witness, expected_head
from holdfast.features.audit.service import as_json
from holdfast.surfaces.cli.frame import FAILED, Session, command

group = click.Group("audit", help="What happened, and the proof that nobody changed the record.")

_FILTERS = (
    click.option("--actor", metavar="ID", help="Who did it: a key's or a person's id, or system."),
    click.option("--action", help="What was done; also everything below it, such as workspace.secret."),
    click.option("--resource", help="The kind of thing it was done to."),
    click.option("--resource-id", metavar="ID", help="The thing it was done to."),
    click.option("--workspace", metavar="WS", help="The workspace's id, UUID or slug."),
    click.option("--outcome", type=click.Choice(["allowed", "denied"])),
    click.option("--since", metavar="TIME", help="From this moment on, such as 2026-11-16."),
    click.option("--until", metavar="TIME", help="Before this moment."),
)
_COLUMNS = ["at", "actor_name", "actor", "action", "resource_id", "outcome", "times"]


@command(
    group,
    "list",
    *_FILTERS,
    click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True),
    help="List events, newest first.",
)
async def list_events(session: Session, limit: int, **asked: Any) -> None:
    page = await session.services.audit.list(session.principal, await _filter(session, asked), limit=limit)
    session.out.table([as_json(event) for event in page.items], _COLUMNS, empty="No events match.")
    if page.next_cursor is not None:
        session.out.note("There are more; narrow the list, or use `holdfast audit export`.")


@command(group, "export", *_FILTERS, help="Print every event as JSON lines, newest first.")
async def export(session: Session, **asked: Any) -> None:
    async for line in session.services.audit.export(session.principal, await _filter(session, asked)):
        click.echo(line, nl=False)


@command(
    group,
    "verify",
    click.option(
        "--expect",
        "expect",
        multiple=True,
        metavar="HEAD",
        help="A head kept elsewhere, as `holdfast audit head` printed it: the chain must go through it.",
    ),
    help="Check every chain; exit with 1 when an event was altered, removed, added or reordered.",
)
async def verify(session: Session, expect: tuple[str, ...]) -> None:
    audit = session.services.audit
    expected: dict[str, list[Witness]] = {}
    for text in expect:
        organization_id, witness = expected_head(text)
        expected.setdefault(organization_id, []).append(witness)
    await audit.seal()
    organizations = sorted({*await audit.organizations(), *expected})
    found = [await audit.verify(each, expected.get(each, ())) for each in organizations]
    problems = [
        {
            "organization_id": each.organization_id,
            "kind": problem.kind,
            "sequence": problem.sequence,
            "event_id": problem.event_id,
            "message": problem.message,
        }
        for each in found
        for problem in each.problems
    ]
    # What is said of the whole installation would be said of each organization.
    notes = list(dict.fromkeys(note for each in found for note in each.notes))
    events = sum(each.events for each in found)
    mine = next((each for each in found if each.organization_id == session.principal.organization_id), None)
    head_hash = mine.head_hash if mine else None
    lines = [f"{problem['kind']}: {problem['message']}" for problem in problems]
    if not problems:
        lines.append(f"{events} events, intact; the last seal is {head_hash or 'none yet'}.")
    elif all(problem["kind"] == "unproven" for problem in problems):
        lines.append(f"{events} events cannot be proven: the master key that their key is sealed under is not here.")
    else:
        lines.append(f"{len(problems)} problems in {events} events: somebody changed the record.")
    summary = {
        "intact": not problems,
        "events": events,
        "head_hash": head_hash,
        "problems": problems,
        "notes": notes,
        "organizations": [
            {"id": each.organization_id, "intact": each.intact, "events": each.events, "unsealed": each.unsealed}
            for each in found
        ],
    }
    for note in notes:
        session.out.note(note)
    session.out.record(summary, lines)
    if problems:
        raise SystemExit(FAILED)


@command(group, "head", help="Print how far each chain goes; keep it elsewhere, for `holdfast audit verify --expect`.")
async def head(session: Session) -> None:
    await session.services.audit.close()
    heads = await session.services.audit.heads()
    rows = [
        {
            "head": str(each),
            "organization_id": each.organization_id,
            "sequence": each.sequence,
            "hash": each.hash,
            "sealed_at": iso(each.sealed_at),
            "key_id": each.key_id,
            "mac": each.mac,
        }
        for each in heads
    ]
    if session.out.as_json:
        session.out.table(rows, ["head"])
        return
    for row in rows:
        click.echo(row["head"])


@command(
    group,
    "accept",
    click.option("--reason", required=True, help="What happened; it is kept in the chain."),
    help="Take the chains as they are now, after you have looked into what `verify` found, and go on from there.",
)
async def accept(session: Session, reason: str) -> None:
    heads = await session.services.audit.accept(session.principal, reason)
    session.out.record({"accepted": [str(each) for each in heads], "reason": reason})


async def _filter(session: Session, asked: dict[str, Any]) -> AuditFilter:
    return AuditFilter(
        actor=asked["actor"],
        action=asked["action"],
        resource=asked["resource"],
        resource_id=asked["resource_id"],
        workspace_id=None if asked["workspace"] is None else await session.workspace(asked["workspace"]),
        outcome=asked["outcome"],
        since=None if asked["since"] is None else parse_time(asked["since"], "--since"),
        until=None if asked["until"] is None else parse_time(asked["until"], "--until"),
    )
