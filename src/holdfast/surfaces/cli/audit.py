"""Owns `holdfast audit`."""

from typing import Any

import click

from holdfast.core.clock import parse_time
from holdfast.features.audit.model import AuditFilter
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


@command(group, "verify", help="Check the chain; exit with 1 when an event was altered, removed or reordered.")
async def verify(session: Session) -> None:
    audit = session.services.audit
    await audit.seal()
    found = await audit.verify(session.principal.organization_id)
    problems = [
        {"kind": each.kind, "sequence": each.sequence, "event_id": each.event_id, "message": each.message}
        for each in found.problems
    ]
    lines = [f"{problem['kind']}: {problem['message']}" for problem in problems]
    lines.append(
        f"{found.events} events, intact; the last seal is {found.head_hash or 'none yet'}."
        if found.intact
        else f"{len(problems)} problems in {found.events} events: somebody changed the record."
    )
    summary = {"intact": found.intact, "events": found.events, "head_hash": found.head_hash, "problems": problems}
    session.out.record(summary, lines)
    if not found.intact:
        raise SystemExit(FAILED)


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
