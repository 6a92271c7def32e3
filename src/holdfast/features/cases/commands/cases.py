"""Owns `holdfast cases`: the queue, its moves and its proofs on the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.core.commands import FAILED, Argument, Commands, Deadline, Given, InWorkspace, Option, Out, Session
from holdfast.core.errors import FieldError, Invalid
from holdfast.features.cases.answers import CaseAnswer, EnvironmentAnswer, ProofKeyAnswer, case_answer, proof_answer
from holdfast.features.cases.exchange import CaseExchange
from holdfast.features.cases.model import CaseFilter, LinkType, NewCase, NewLink, Taking, Writing
from holdfast.features.cases.proofs.keys import read_public_key, verified
from holdfast.features.cases.proofs.model import USUAL_SECONDS, NewProof, ProofKind
from holdfast.features.cases.proofs.service import ProofService
from holdfast.features.cases.proofs.statement import read_envelope
from holdfast.features.cases.reading import CaseReading
from holdfast.features.cases.service import CaseService
from holdfast.features.cases.states import Kind, State

cases = Commands("cases", help="Work items that close only on proof.")

_COLUMNS = ["id", "priority", "state", "kind", "title"]


class One(InWorkspace):
    """A case that is named."""

    case_id: Annotated[str, Argument("CASE")]


class Add(InWorkspace):
    """What `add` is given."""

    title: Annotated[str | None, Argument("TITLE")] = None
    body: Annotated[str, Option(reads="dash")] = Field("", description="What it is about; - reads standard input.")
    kind: Kind | None = Field(None, description="A task, unless an issue says that it is a bug.")
    priority: int | None = Field(None, ge=0, le=4, description="0 comes first, 4 last (default: 2).")
    criteria: Annotated[list[str], Option("--criterion")] = Field([], description="What has to be shown; repeat it.")
    labels: Annotated[list[str], Option("--label")] = []
    assignee: str | None = None
    due_at: Annotated[Deadline, Option("--due", metavar="TIME")] = None
    repository: Annotated[str | None, Option("--repo", metavar="SLUG")] = None
    base_commit: Annotated[str | None, Option("--base", metavar="COMMIT")] = None
    head_commit: Annotated[str | None, Option("--head", metavar="COMMIT")] = None
    environment: str | None = Field(None, description="The prepared environment of its proofs.")
    parent: Annotated[str | None, Option(metavar="CASE")] = None
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
    said = given.model_dump(include=set(NewCase.__slots__) - {"source"})
    # What was not said is left to the case, or to the issue that it is made from.
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in said.items()
        if value not in (None, [], "")
    }
    if given.source is not None:
        case = await exchange.from_issue(session.principal, workspace, given.source, fields)
    elif given.title is not None:
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
async def show(session: Session, reading: CaseReading, given: One) -> None:
    workspace = await session.workspace(given.workspace)
    found = await reading.read(session.principal, workspace, given.case_id)
    session.out.record(found, _shown(found))


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


class Prove(One):
    """What `prove` is given."""

    kind: ProofKind = Field("run", description="run: our runner executes it; reported: somebody says so; word: yours.")
    claim: str = Field("", description="What it shows, in words.")
    criteria: Annotated[list[str], Option("--criterion", metavar="ID")] = Field(
        [], description="Such as c1; repeat it."
    )
    command: str = Field("", description="What shows it, run by /bin/sh in a clean checkout.")
    expected_exit: int = 0
    tests: Annotated[list[str], Option("--test")] = Field([], description="A test that must have passed; repeat it.")
    report: str | None = Field(None, description="Where the command writes JUnit XML.")
    is_reproduction: Annotated[bool, Option("--reproduction")] = Field(
        False, description="It shows the bug: it has to fail at the base commit."
    )
    environment: str | None = None
    timeout_seconds: Annotated[int, Option("--timeout")] = USUAL_SECONDS
    commit: str | None = Field(None, description="Where it was seen, as reported.")
    outcome: Literal["passed", "failed"] | None = Field(None, description="What was seen, as reported.")
    artifact_id: Annotated[str | None, Option("--artifact")] = None


@cases.command("prove", help="Add a proof to a case; a command is run by the server.")
async def prove(session: Session, service: ProofService, given: Prove) -> None:
    workspace = await session.workspace(given.workspace)
    said = given.model_dump(include=set(NewProof.__slots__) - {"criteria", "tests"})
    new = NewProof(**said, criteria=tuple(given.criteria), tests=tuple(given.tests))
    found = await service.add(session.principal, workspace, given.case_id, new)
    session.out.record(proof_answer(found), [f"Added {found.proof.id} ({found.verdict}): {found.why}"])


class Verify(Given):
    """What `verify` is given."""

    statement: Annotated[Path, Argument("STATEMENT", path="file")]
    key: Annotated[Path | None, Option(path="file")] = Field(
        None, description="The public key in PEM (default: the keys of this data directory)."
    )


def verify_alone(out: Out, given: Verify) -> bool:
    """With the key in a file nothing else is needed: no store, and no server."""
    if given.key is None:
        return False
    _verify(out, given, [given.key.read_text(errors="replace")])
    return True


@cases.command("verify", help="Check a signed statement, offline.", alone=verify_alone)
async def verify(session: Session, service: ProofService, given: Verify) -> None:
    _verify(session.out, given, [each.pem for each in await service.public_keys()])


def _verify(out: Out, given: Verify, pems: Sequence[str]) -> None:
    envelope, statement = read_envelope(given.statement.read_text(encoding="utf-8", errors="replace"))
    by = verified(envelope, [read_public_key(pem) for pem in pems])
    subject, predicate = statement["subject"][0], statement["predicate"]
    found = {
        "verified": by is not None,
        "key_id": by,
        "repository": subject.get("name"),
        "commit": subject["digest"]["gitCommit"],
        "result": predicate.get("result"),
        "passed_tests": predicate.get("passedTests", []),
        "failed_tests": predicate.get("failedTests", []),
    }
    if by is None:
        out.record(found, ["NOT VERIFIED: no signature is good by the given key. Nothing in it is to be trusted."])
        raise SystemExit(FAILED)
    out.record(found, [f"Verified by {by}.", f"{found['repository']} at {found['commit']}: {found['result']}"])


class Statement(InWorkspace):
    """What `statement` is given."""

    proof_id: Annotated[str, Argument("PROOF")]
    run_id: Annotated[str | None, Option("--run")] = None


@cases.command("statement", help="Print the signed in-toto statement of a proof's run.")
async def statement(session: Session, service: ProofService, given: Statement) -> None:
    workspace = await session.workspace(given.workspace)
    envelope = await service.statement(session.principal, workspace, given.proof_id, given.run_id)
    session.out.record(envelope.as_json())


@cases.command("keys", help="The public keys that statements are checked with.")
async def keys(session: Session, service: ProofService) -> None:
    found = [ProofKeyAnswer.of(each) for each in await service.public_keys()]
    if session.out.as_json:
        session.out.table(found, ["id"])
    else:
        session.out.write("".join(each.pem for each in found))


class Export(InWorkspace):
    """What `export` is given."""

    format: Literal["jsonl", "markdown"] = "jsonl"


@cases.command("export", help="Print every case, as JSON lines or Markdown.")
async def export(session: Session, exchange: CaseExchange, given: Export) -> None:
    workspace = await session.workspace(given.workspace)
    async for text in exchange.export(session.principal, workspace, given.format):
        session.out.write(text)


class Environments(InWorkspace):
    """What `environment` is given."""

    action: Annotated[Literal["add", "list", "look", "remove", "use"], Argument("add|list|look|remove|use")]
    name: Annotated[str | None, Argument("NAME")] = None
    path: Annotated[str | None, Argument("DIRECTORY")] = None
    repository: list[str] = Field([], description="With use: whose proofs see it where nothing else is named.")


@cases.command("environment", help="Directories of this machine that proofs see, read-only.")
async def environment(session: Session, service: ProofService, given: Environments) -> None:
    workspace = await session.workspace(given.workspace)
    if given.action == "list":
        found = await service.environments(session.principal, workspace)
        session.out.table([EnvironmentAnswer.of(each) for each in found], ["name", "path", "repositories", "problem"])
    elif given.name is None or (given.action == "add" and given.path is None):
        raise Invalid("It needs a NAME, and to be added a DIRECTORY.")
    elif given.action == "use":
        used = await service.declare(session.principal, workspace, given.name, given.repository)
        repositories = ", ".join(used.repositories) or "no repository"
        session.out.record(EnvironmentAnswer.of(used), [f"Proofs of {repositories} see {used.name}."])
    elif given.action == "look":
        seen = await service.look(session.principal, workspace, given.name)
        session.out.record(EnvironmentAnswer.of(seen), [seen.problem or f"{seen.name} has the digest {seen.digest}."])
    elif given.action == "remove":
        await service.unregister(session.principal, workspace, given.name)
        session.out.record({"removed": given.name}, [f"Removed {given.name}."])
    else:
        kept = await service.register(session.principal, workspace, given.name, given.path or "")
        told = [f"Proofs may name {kept.name}: {kept.path}.", *([kept.problem] if kept.problem else [])]
        session.out.record(EnvironmentAnswer.of(kept), told)


def _shown(case: CaseAnswer) -> list[str]:
    lines = [f"{case.id}  {case.state}  {case.kind}, priority {case.priority}", case.title]
    lines += ["", case.body] if case.body else []
    lines += [f"Blocked: {case.reason}"] if case.state == "BLOCKED" else []
    lines += [
        f"  [{'x' if each.verdict in ('passed', 'word') else ' '}] {each.id} {each.text} ({each.verdict or 'no proof'})"
        for each in case.criteria
    ]
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
