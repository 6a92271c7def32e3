"""Owns the commands of `holdfast cases` about proofs: adding and running them, statements, keys, environments."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from holdfast.core.commands import FAILED, Argument, Command, Given, InWorkspace, Option, Out, Session, command
from holdfast.core.errors import Invalid
from holdfast.engines.jobs import JobEngine
from holdfast.engines.jobs.here import LOOK_SECONDS, working
from holdfast.features.cases.answers import EnvironmentAnswer, ProofKeyAnswer, proof_answer
from holdfast.features.cases.proofs.keys import read_public_key, verified
from holdfast.features.cases.proofs.model import FINISHED, USUAL_SECONDS, NewProof, ProofKind, ProvenProof
from holdfast.features.cases.proofs.service import ProofService
from holdfast.features.cases.proofs.statement import read_envelope

_Wait = Annotated[bool, Field(description="Return when our runner has seen how it ends.")]


class One(InWorkspace):
    """A case that is named."""

    case_id: Annotated[str, Argument("CASE")]


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
    wait: _Wait = False


@command("prove", help="Add a proof to a case; a command is run by the server.")
async def prove(session: Session, service: ProofService, given: Prove) -> None:
    workspace = await session.workspace(given.workspace)
    said = given.model_dump(include=set(NewProof.__slots__) - {"criteria", "tests"})
    new = NewProof(**said, criteria=tuple(given.criteria), tests=tuple(given.tests))
    found = await service.add(session.principal, workspace, given.case_id, new)
    await _told(session, service, workspace, found, wait=given.wait, did="Added")


class RunGiven(InWorkspace):
    """What `run` is given."""

    proof_id: Annotated[str, Argument("PROOF")]
    wait: _Wait = False


@command("run", help="Run a proof again, at the present head.")
async def run(session: Session, service: ProofService, given: RunGiven) -> None:
    workspace = await session.workspace(given.workspace)
    found = await service.run(session.principal, workspace, given.proof_id)
    await _told(session, service, workspace, found, wait=given.wait, did="Asked for")


async def _told(
    session: Session, service: ProofService, workspace: str, found: ProvenProof, *, wait: bool, did: str
) -> None:
    """Print a proof; with `wait` once nothing of it waits or runs any more, and what it printed where that is bad."""
    id = found.proof.id
    if wait:
        with session.out.progress() as shown:
            async with working(session.parts[JobEngine]):
                while any(each.outcome not in FINISHED for each in found.runs):
                    shown.show(f"Running {id}")
                    await asyncio.sleep(LOOK_SECONDS)
                    found = await service.get(session.principal, workspace, id)
    session.out.record(proof_answer(found), [f"{did} {id} ({found.verdict}): {found.why}"])
    if wait and found.verdict not in ("passed", "word", "reported"):
        if not session.out.as_json and found.runs:
            session.out.write(found.runs[0].output)
        raise SystemExit(FAILED)


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


@command("verify", help="Check a signed statement, offline.", alone=verify_alone)
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


@command("statement", help="Print the signed in-toto statement of a proof's run.")
async def statement(session: Session, service: ProofService, given: Statement) -> None:
    workspace = await session.workspace(given.workspace)
    envelope = await service.statement(session.principal, workspace, given.proof_id, given.run_id)
    session.out.record(envelope.as_json())


@command("keys", help="The public keys that statements are checked with.")
async def keys(session: Session, service: ProofService) -> None:
    found = [ProofKeyAnswer.of(each) for each in await service.public_keys()]
    if session.out.as_json:
        session.out.table(found, ["id"])
    else:
        session.out.write("".join(each.pem for each in found))


class Environments(InWorkspace):
    """What `environment` is given."""

    action: Annotated[Literal["add", "list", "look", "remove", "use"], Argument("add|list|look|remove|use")]
    name: Annotated[str | None, Argument("NAME")] = None
    path: Annotated[str | None, Argument("DIRECTORY")] = None
    repository: list[str] = Field([], description="With use: whose proofs see it where nothing else is named.")


@command("environment", help="Directories of this machine that proofs see, read-only.")
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


PROOF_COMMANDS: tuple[Command, ...] = (prove, run, statement, verify, keys, environment)
