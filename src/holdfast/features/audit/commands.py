"""Owns `holdfast audit`."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.core.clock import iso
from holdfast.core.commands import FAILED, Commands, Given, InWorkspace, Moment, Option, Session
from holdfast.core.text.counting import many
from holdfast.features.audit.model import AuditFilter, Verification, Witness, expected_head
from holdfast.features.audit.service import Audit, as_json

audit = Commands("audit", help="What happened, and the proof that nobody changed the record.")

_COLUMNS = ["at", "actor_name", "actor", "action", "resource_id", "outcome", "times"]


class Wanted(InWorkspace):
    """Which events."""

    actor: Annotated[str | None, Option(metavar="ID")] = Field(
        None, description="Who did it: a key's or a person's id, or system."
    )
    action: str | None = Field(None, description="What was done; also everything below it, such as workspace.secret.")
    resource: str | None = Field(None, description="The kind of thing it was done to.")
    resource_id: Annotated[str | None, Option(metavar="ID")] = Field(None, description="The thing it was done to.")
    outcome: Literal["allowed", "denied"] | None = None
    since: Moment = Field(None, description="From this moment on, such as 2026-11-16.")
    until: Moment = Field(None, description="Before this moment.")

    async def filter(self, session: Session) -> AuditFilter:
        """The same for the service."""
        return AuditFilter(
            actor=self.actor,
            action=self.action,
            resource=self.resource,
            resource_id=self.resource_id,
            workspace_id=None if self.workspace is None else await session.workspace(self.workspace),
            outcome=self.outcome,
            since=self.since,
            until=self.until,
        )


class Listing(Wanted):
    """What `list` is given."""

    limit: int = Field(50, ge=1, le=200)


@audit.command("list", help="List events, newest first.")
async def list_events(session: Session, log: Audit, given: Listing) -> None:
    page = await log.list(session.principal, await given.filter(session), limit=given.limit)
    session.out.table([as_json(event) for event in page.items], _COLUMNS, empty="No events match.")
    if page.next_cursor is not None:
        session.out.note("There are more; narrow the list, or use `holdfast audit export`.")


@audit.command("export", help="Print every event as JSON lines, newest first.")
async def export(session: Session, log: Audit, given: Wanted) -> None:
    async for line in log.export(session.principal, await given.filter(session)):
        session.out.write(line)


class Verify(Given):
    """What `verify` is given."""

    expect: Annotated[list[str], Option(metavar="HEAD")] = Field(
        [], description="A head kept elsewhere, as `holdfast audit head` printed it: the chain must go through it."
    )


@audit.command("verify", help="Check every chain; exit with 1 when an event was altered, removed, added or reordered.")
async def verify(session: Session, log: Audit, given: Verify) -> None:
    expected: dict[str, list[Witness]] = {}
    for text in given.expect:
        organization_id, witness = expected_head(text)
        expected.setdefault(organization_id, []).append(witness)
    await log.seal()
    organizations = sorted({*await log.organizations(), *expected})
    found = [await log.verify(each, expected.get(each, ())) for each in organizations]
    # What is said of the whole installation would be said of each organization.
    notes = list(dict.fromkeys(note for each in found for note in each.notes))
    for note in notes:
        session.out.note(note)
    mine = next((each for each in found if each.organization_id == session.principal.organization_id), None)
    summary = _summary(found, mine.head_hash if mine else None, notes)
    session.out.record(summary, _lines(summary))
    if not summary["intact"]:
        raise SystemExit(FAILED)


@audit.command("head", help="Print how far each chain goes; keep it elsewhere, for `holdfast audit verify --expect`.")
async def head(session: Session, log: Audit) -> None:
    await log.close()
    heads = await log.heads()
    if not session.out.as_json:
        for each in heads:
            session.out.write(f"{each}\n")
        return
    rows = [{"head": str(each), **asdict(each), "sealed_at": iso(each.sealed_at)} for each in heads]
    session.out.table(rows, ["head"])


class Accept(Given):
    """What `accept` is given."""

    reason: str = Field(description="What happened; it is kept in the chain.")


@audit.command(
    "accept",
    help="Take the chains as they are now, after you have looked into what `verify` found, and go on from there.",
)
async def accept(session: Session, log: Audit, given: Accept) -> None:
    heads = await log.accept(session.principal, given.reason)
    session.out.record({"accepted": [str(each) for each in heads], "reason": given.reason})


def _summary(found: list[Verification], head_hash: str | None, notes: list[str]) -> dict[str, Any]:
    problems = [
        {"organization_id": each.organization_id, **asdict(problem)} for each in found for problem in each.problems
    ]
    return {
        "intact": not problems,
        "events": sum(each.events for each in found),
        "head_hash": head_hash,
        "problems": problems,
        "notes": notes,
        "organizations": [
            {"id": each.organization_id, "intact": each.intact, "events": each.events, "unsealed": each.unsealed}
            for each in found
        ],
    }


def _lines(summary: dict[str, Any]) -> list[str]:
    problems, events = summary["problems"], summary["events"]
    lines = [f"{problem['kind']}: {problem['message']}" for problem in problems]
    if not problems:
        lines.append(f"{many(events, 'event')}, intact; the last seal is {summary['head_hash'] or 'none yet'}.")
    elif all(problem["kind"] == "unproven" for problem in problems):
        lines.append(f"{many(events, 'event')} cannot be proven: the master key of the audit key is not here.")
    else:
        lines.append(f"{many(len(problems), 'problem')} in {many(events, 'event')}: somebody changed the record.")
    return lines
