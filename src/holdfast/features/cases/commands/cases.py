"""Owns `holdfast cases`: the queue and its moves on the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.core.commands import Argument, Commands, Deadline, InWorkspace, Option, Session
from holdfast.core.errors import FieldError, Invalid
from holdfast.features.cases.answers import CaseAnswer, CommentAnswer, ProofAnswer, case_answer, proof_answer
from holdfast.features.cases.commands.proofs import PROOF_COMMANDS, One
from holdfast.features.cases.exchange import CaseExchange
from holdfast.features.cases.model import CaseFilter, LinkType, NewCase, NewLink, Taking, Writing
from holdfast.features.cases.proofs.service import ProofService
from holdfast.features.cases.reading import CaseReading
from holdfast.features.cases.service import CaseService
from holdfast.features.cases.states import Kind, State

cases = Commands("cases", help="Work items that close only on proof.")
for each in PROOF_COMMANDS:
    cases.add(each)

_EMPTIED = ("assignee", "repository", "base_commit", "head_commit", "environment", "parent")
_COLUMNS = ["id", "priority", "state", "kind", "title"]


class Fields(InWorkspace):
    """What a case says, in `add` and `edit`."""

    body: Annotated[str | None, Option(reads="dash")] = Field(
        None, description="What it is about; - reads standard input."
    )
    kind: Kind | None = Field(None, description="A task, unless an issue says that it is a bug.")
    priority: int | None = Field(None, ge=0, le=4, description="0 comes first, 4 last (a new one: 2).")
    criteria: Annotated[list[str], Option("--criterion")] = Field(
        [], description="What has to be shown; repeat it, with all of them."
    )
    labels: Annotated[list[str], Option("--label")] = []
    assignee: str | None = None
    due_at: Annotated[Deadline, Option("--due", metavar="TIME")] = None
    repository: Annotated[str | None, Option("--repo", metavar="SLUG")] = None
    base_commit: Annotated[str | None, Option("--base", metavar="COMMIT")] = None
    head_commit: Annotated[str | None, Option("--head", metavar="COMMIT")] = None
    environment: str | None = Field(None, description="The prepared environment of its proofs.")
    parent: Annotated[str | None, Option(metavar="CASE")] = None

    def said(self) -> dict[str, Any]:
        """The fields that were named, as a case has them."""
        given = self.model_dump(include=set(Fields.model_fields) - {"workspace"} | {"title"})
        return {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in given.items()
            if value not in (None, [])
        }


class Add(Fields):
    """What `add` is given."""

    title: Annotated[str | None, Argument("TITLE")] = None
    source: Annotated[str | None, Option("--from", metavar="OWNER/REPO#N")] = Field(
        None, description="An issue of a repository in memory to make it from."
    )
    checklist: Annotated[Path | None, Option("--checklist", path="file")] = Field(
        None, description="A Markdown file: each open item of its checklists becomes a case."
    )


@cases.command("add", help="Add a case, or several from a checklist.", begins_store=True)
async def add(session: Session, service: CaseService, exchange: CaseExchange, given: Add) -> None:
    workspace = await session.workspace(given.workspace)
    if given.checklist is not None:
        text = given.checklist.read_text(encoding="utf-8", errors="replace")
        made = await exchange.from_checklist(session.principal, workspace, text)
        session.out.table([case_answer(case, None) for case in made], _COLUMNS, empty="It has no open item.")
        return
    # What was not said is left to the case, or to the issue that it is made from.
    fields = {name: value for name, value in given.said().items() if value != ""}
    if given.source is not None:
        case = await exchange.from_issue(session.principal, workspace, given.source, fields)
    elif "title" in fields:
        case = await service.add(session.principal, workspace, NewCase(**fields))
    else:
        raise Invalid("It needs a title.", fields=[FieldError("title", "write it, or name an issue with --from")])
    session.out.record(case_answer(case, None), [f"Added {case.id} ({case.state}): {case.title}"])


class Listing(InWorkspace):
    """What `list` is given."""

    state: State | None = None
    kind: Kind | None = None
    label: str | None = None
    assignee: str | None = None
    repository: Annotated[str | None, Option("--repo")] = None
    limit: int = Field(50, ge=1, le=200)


@cases.command("list", help="List cases, newest first.")
async def list_(session: Session, service: CaseService, given: Listing) -> None:
    workspace = await session.workspace(given.workspace)
    wanted = CaseFilter(given.state, given.kind, given.label, given.assignee, None, given.repository)
    page = await service.page(session.principal, workspace, wanted, limit=given.limit)
    now = service.base.clock.now()
    session.out.table([case_answer(case, case.claim(now)) for case in page.items], _COLUMNS)
    if page.next_cursor:
        session.out.note("There are more; raise --limit to see them.")


class Ready(InWorkspace):
    """What `ready` is given."""

    limit: int = Field(20, ge=1, le=200)


@cases.command("ready", help="What nothing blocks and nobody holds, in the order to take it.")
async def ready(session: Session, service: CaseService, given: Ready) -> None:
    workspace = await session.workspace(given.workspace)
    found = await service.claims.ready(session.principal, workspace, given.limit)
    session.out.table([case_answer(case, None) for case in found], _COLUMNS, empty="Nothing is ready.")


@cases.command("show", help="Show a case with its proofs, links and history.")
async def show(session: Session, reading: CaseReading, service: ProofService, given: One) -> None:
    workspace = await session.workspace(given.workspace)
    found = await reading.read(session.principal, workspace, given.case_id)
    _, proofs = await service.of_case(session.principal, workspace, given.case_id)
    session.out.record(found, _shown(found, [proof_answer(each) for each in proofs]))


class ClaimGiven(InWorkspace):
    """What `claim` is given."""

    case_id: Annotated[str | None, Argument("CASE")] = None
    session_id: Annotated[str | None, Option("--session")] = None
    minutes: int | None = Field(None, ge=1, le=1440, description="How long (default: 4 hours).")


@cases.command("claim", help="Take a case, or the next one that is ready.")
async def claim(session: Session, service: CaseService, reading: CaseReading, given: ClaimGiven) -> None:
    workspace = await session.workspace(given.workspace)
    taking = Taking(given.session_id, None if given.minutes is None else given.minutes * 60)
    if given.case_id is None:
        found = await reading.claim_next(session.principal, workspace, taking)
    else:
        case = await service.claims.claim(session.principal, workspace, given.case_id, taking)
        found = await reading.answer(session.principal, case)
    until, fence = (found.claim.expires_at, found.claim.fence) if found.claim else ("", "")
    session.out.record(found, [f"Claimed {found.id} until {until}, fence {fence}: {found.title}"])


class MoveGiven(One):
    """What `move` is given."""

    state: Annotated[State, Argument("STATE")]
    reason: str = ""
    expected_version: int | None = None
    fence: int | None = None


@cases.command("move", help="Move a case one step.")
async def move(session: Session, service: CaseService, reading: CaseReading, given: MoveGiven) -> None:
    workspace = await session.workspace(given.workspace)
    case = await service.move(
        session.principal,
        workspace,
        given.case_id,
        given.state,
        reason=given.reason,
        writing=Writing(given.expected_version, given.fence),
    )
    found = await reading.answer(session.principal, case)
    session.out.record(found, [f"{case.id} is {case.state}."])


class ReleaseGiven(One):
    """What `release` is given."""

    fence: int | None = None


@cases.command("release", help="Give a case back to the queue.")
async def release(session: Session, service: CaseService, reading: CaseReading, given: ReleaseGiven) -> None:
    workspace = await session.workspace(given.workspace)
    case = await service.claims.release(session.principal, workspace, given.case_id, given.fence)
    session.out.record(await reading.answer(session.principal, case), [f"Nobody holds {case.id} any more."])


class EditGiven(Fields, One):
    """What `edit` is given."""

    title: str | None = None
    expected_version: int | None = None
    fence: int | None = None


@cases.command("edit", help="Change fields of a case; those left out stay, and '' empties one.")
async def edit(session: Session, service: CaseService, reading: CaseReading, given: EditGiven) -> None:
    workspace = await session.workspace(given.workspace)
    changes = {name: None if value == "" and name in _EMPTIED else value for name, value in given.said().items()}
    writing = Writing(given.expected_version, given.fence)
    case = await service.edit(session.principal, workspace, given.case_id, changes, writing)
    session.out.record(await reading.answer(session.principal, case), [f"{case.id} is changed."])


class CommentGiven(One):
    """What `comment` is given."""

    text: Annotated[str, Argument("TEXT", reads="dash")]


@cases.command("comment", help="Remark on a case; names after an @ are told.")
async def comment(session: Session, service: CaseService, given: CommentGiven) -> None:
    workspace = await session.workspace(given.workspace)
    said = await service.comment(session.principal, workspace, given.case_id, given.text)
    session.out.record(CommentAnswer.of(said), [f"Said on {said.case_id}."])


class LinkGiven(One):
    """What `link` is given."""

    type: Annotated[LinkType, Argument("TYPE")]
    other_id: Annotated[str, Argument("OTHER")]


@cases.command("link", help="Tie a case to another: blocks, related or discovered_from.")
async def link(session: Session, service: CaseService, reading: CaseReading, given: LinkGiven) -> None:
    workspace = await session.workspace(given.workspace)
    tie = NewLink(given.type, given.other_id)
    case = await service.links.link(session.principal, workspace, given.case_id, tie)
    found = await reading.answer(session.principal, case)
    session.out.record(found, [f"{case.id} {given.type} {given.other_id}."])


class Export(InWorkspace):
    """What `export` is given."""

    format: Literal["jsonl", "markdown"] = "jsonl"


@cases.command("export", help="Print every case, as JSON lines or Markdown.")
async def export(session: Session, exchange: CaseExchange, given: Export) -> None:
    workspace = await session.workspace(given.workspace)
    async for text in exchange.export(session.principal, workspace, given.format):
        session.out.write(text)


def _shown(case: CaseAnswer, proofs: Sequence[ProofAnswer]) -> list[str]:
    lines = [f"{case.id}  {case.state}  {case.kind}, priority {case.priority}", case.title]
    lines += ["", case.body] if case.body else []
    lines += [f"Blocked: {case.reason}"] if case.state == "BLOCKED" else []
    lines += [
        f"  [{'x' if each.verdict in ('passed', 'word') else ' '}] {each.id} {each.text} ({each.verdict or 'no proof'})"
        for each in case.criteria
    ]
    lines += [f"  {each.id} {each.command or each.claim} ({each.verdict}): {each.why}" for each in proofs]
    lines += [f"Missing: {gap}" for gap in case.missing]
    if case.claim is not None:
        lines.append(f"Held by {case.claim.holder_name or case.claim.holder} until {case.claim.expires_at}.")
    lines += [f"{each.type} {each.case_id}" for each in case.links]
    lines += [f"Waits for {each}" for each in case.blocked_by]
    lines += [
        f"{each.at}  {each.actor_name or each.actor}: {each.action} {each.to_state or ''} {each.reason}".rstrip()
        for each in case.history
    ]
    return lines
