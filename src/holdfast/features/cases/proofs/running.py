"""Owns the runner: a clean checkout at a commit, in the sandbox without a network; record, run, record."""

import asyncio
import hashlib
import os
import platform
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.core.clock import Clock
from holdfast.core.errors import HoldfastError, NotFound
from holdfast.engines.events import EventBus
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.git.transport.address import parse_location
from holdfast.engines.jobs import Job, JobRun
from holdfast.engines.runtime.base import Mounted, RunEnding, RunLimits, RunSpec, Runtime
from holdfast.engines.runtime.trees import remove_tree
from holdfast.features.cases import store as case_store
from holdfast.features.cases.model import Case
from holdfast.features.cases.proofs import store
from holdfast.features.cases.proofs.directories import digest
from holdfast.features.cases.proofs.junit import MAX_REPORT, BadReport, named, read_report
from holdfast.features.cases.proofs.model import (
    FINISHED,
    OUTPUT_BYTES,
    Environment,
    Outcome,
    Proof,
    ProofRun,
    TestResult,
)
from holdfast.features.cases.proofs.queueing import RunQueue
from holdfast.features.repositories import store as repository_store
from holdfast.features.repositories.model import Repository
from holdfast.features.workspaces import store as workspace_store
from holdfast.storage.database import Database, Tx

PRINTED_BYTES = 64 * 1024 * 1024
"""How much a run may print before it is stopped."""
KEPT_BYTES = 4 * 1024 * 1024 * 1024
"""How much its checkout may hold, what it writes there included."""
WORK = "/work"
_PATH = "/usr/local/bin:/usr/bin:/bin"
_NO_COMMAND = (126, 127)
_HEADS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class _Asked:
    """All that a run needs to know, read at once."""

    run: ProofRun
    proof: Proof
    case: Case
    repository: Repository | None
    environment: Environment | None
    wants: str | None
    """The environment that is named, be it registered or not."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a run showed."""

    outcome: Outcome
    said: str
    exit_code: int | None = None
    tests: tuple[TestResult, ...] = ()
    output: bytes = b""
    output_bytes: int = 0
    output_digest: str = ""
    seconds: float = 0.0
    environment: Mapping[str, Any] | None = None


class Runner:
    """Runs proofs. Killed at any moment, it leaves a run that waits, or one that is whole."""

    def __init__(
        self,
        database: Database,
        git: GitEngine,
        runtime: Runtime,
        events: EventBus,
        queue: RunQueue,
        clock: Clock,
        directory: Path,
    ) -> None:
        """`directory` is where checkouts live while they run."""
        self._database = database
        self._git = git
        self._runtime = runtime
        self._events = events
        self._queue = queue
        self._clock = clock
        self._directory = directory

    async def run(self, job: JobRun) -> object:
        """One job: one run of one proof at one commit."""
        asked = await self._database.read(lambda tx: _asked(tx, str(job.payload["run_id"])))
        if asked is None or asked.run.outcome in FINISHED:
            return None
        await job.write(lambda tx: self._record(tx, asked, replace(asked.run, outcome="running", said="It runs.")))
        try:
            seen = await self._look(asked)
        except HoldfastError as problem:
            seen = _Seen("error", problem.message)
        ended = replace(
            asked.run,
            outcome=seen.outcome,
            said=seen.said,
            exit_code=seen.exit_code,
            tests=seen.tests,
            output=seen.output.decode("utf-8", "replace").replace("\0", "\ufffd"),
            output_bytes=seen.output_bytes,
            output_digest=seen.output_digest,
            seconds=round(seen.seconds, 3),
            environment=seen.environment or {},
            ended_at=self._clock.now(),
        )
        await job.write(lambda tx: self._record(tx, asked, ended))
        return {"run_id": ended.id, "outcome": ended.outcome}

    def ended(self, tx: Tx, job: Job) -> None:
        """However a job ended: a run that nobody will finish any more says so."""
        run = store.get_run(tx, str(job.payload.get("run_id")))
        if run is None or run.outcome in FINISHED:
            return
        said = "It was cancelled." if job.state == "cancelled" else f"It could not be run: {job.error or 'it was lost'}"
        over = replace(run, outcome="error", said=said, ended_at=self._clock.now())
        store.put_run(tx, over)
        place = case_store.place(tx, run.case_id)
        if place is not None:
            self._tell(tx, place, over)

    async def follow_heads(self, job: JobRun) -> object:
        """Run anew what a repository's new head has made stale, in cases that are being verified."""

        def work(tx: Tx) -> int:
            count = 0
            for case_id, workspace_id in store.followed(tx, _HEADS_AT_ONCE):
                case = case_store.get(tx, workspace_id, case_id, for_update=True)
                count += len(self._queue.freshen(tx, case, "system")) if case is not None else 0
            return count

        return {"queued": await job.write(work)}

    def _record(self, tx: Tx, asked: _Asked, run: ProofRun) -> None:
        if store.get_run(tx, run.id) is None:
            # The case went with its workspace while it ran.
            return
        store.put_run(tx, run)
        self._tell(tx, asked.case.workspace_id, run)

    def _tell(self, tx: Tx, workspace_id: str, run: ProofRun) -> None:
        facts = {"type": "case", "id": run.case_id, "proof_id": run.proof_id, "run_id": run.id, "outcome": run.outcome}
        self._events.publish(tx, "case.proof", facts, workspace_id=workspace_id)

    async def _look(self, asked: _Asked) -> _Seen:
        await self._runtime.check()
        if asked.repository is None:
            return _Seen("error", f"The repository {asked.case.repository!r} is no longer here.")
        if asked.wants is not None and asked.environment is None:
            return _Seen("error", f"The environment {asked.wants!r} is no longer registered.")
        environment = await asyncio.to_thread(_fingerprint, self._runtime, asked.environment)
        place = self._directory / asked.run.id
        await asyncio.to_thread(_fresh, place)
        try:
            try:
                location = parse_location(asked.repository.location)
                await self._git.checkout(asked.repository.id, location, asked.run.commit, place)
            except NotFound:
                said = (
                    f"The repository has no commit {asked.run.commit} any more: its history was rewritten. "
                    "Set the case's commits anew."
                )
                return _Seen("error", said, environment=environment)
            await asyncio.to_thread(_open_up, place)
            return replace(await self._execute(asked, place), environment=environment)
        finally:
            await asyncio.to_thread(remove_tree, place)

    async def _execute(self, asked: _Asked, place: Path) -> _Seen:
        running = await self._runtime.start(_spec(asked, place))
        try:
            running.stdin.close()
            kept = _Kept()
            while chunk := await running.stdout.read(65_536):
                kept.take(chunk)
            ending = await running.wait()
        finally:
            await running.stop()
        report = await asyncio.to_thread(_report, place, asked.proof.report)
        outcome, said, tests = await asyncio.to_thread(_judged, asked, ending, report)
        return _Seen(
            outcome,
            said,
            ending.code,
            tests,
            kept.text,
            kept.bytes,
            kept.digest,
            ending.seconds,
        )


class _Kept:
    """The beginning and the end of what a program prints, with the digest of all of it."""

    def __init__(self) -> None:
        self.bytes = 0
        self._first = b""
        self._last = b""
        self._hash = hashlib.sha256()

    def take(self, chunk: bytes) -> None:
        self.bytes += len(chunk)
        self._hash.update(chunk)
        room = OUTPUT_BYTES // 2 - len(self._first)
        self._first += chunk[:room] if room > 0 else b""
        self._last = (self._last + (chunk[room:] if room > 0 else chunk))[-OUTPUT_BYTES // 2 :]

    @property
    def text(self) -> bytes:
        left_out = self.bytes - len(self._first) - len(self._last)
        mark = f"\n[… {left_out} bytes left out …]\n".encode() if left_out else b""
        return self._first + mark + self._last

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def _asked(tx: Tx, run_id: str) -> _Asked | None:
    run = store.get_run(tx, run_id)
    place = case_store.place(tx, run.case_id) if run is not None else None
    if run is None or place is None:
        return None
    case, proof = case_store.get(tx, place, run.case_id), store.get(tx, place, run.proof_id)
    if case is None or proof is None:
        return None
    wants = proof.environment or case.environment
    if wants is None and case.repository is not None:
        wants = store.declared_environment(tx, place, case.repository)
    return _Asked(
        run,
        proof,
        case,
        None if case.repository is None else _repository(tx, case),
        None if wants is None else store.get_environment(tx, place, wants),
        wants,
    )


def _repository(tx: Tx, case: Case) -> Repository | None:
    place = workspace_store.by_id(tx, case.workspace_id)
    return repository_store.find(tx, place.organization_id, case.repository or "") if place is not None else None


def _spec(asked: _Asked, place: Path) -> RunSpec:
    proof, environment = asked.proof, asked.environment
    mounts = [Mounted(place, WORK, writable=True, most_bytes=KEPT_BYTES)]
    env = {"PATH": _PATH, "HOME": "/tmp", "LANG": "C.UTF-8", "CI": "true"}  # noqa: S108 - the sandbox's own
    if environment is not None:
        # Where it is outside: scripts and virtual environments name their own path.
        mounts.append(Mounted(Path(environment.path), environment.path))
        env["PATH"] = f"{environment.path}/bin:{_PATH}"
        env["PROOF_ENVIRONMENT"] = environment.path
    return RunSpec(
        name=f"proof {proof.id}",
        command=("/bin/sh", "-c", f"exec 2>&1\n{proof.command}"),
        env=env,
        directory=WORK,
        mounts=tuple(mounts),
        limits=RunLimits(seconds=proof.timeout_seconds, output_bytes=PRINTED_BYTES),
        tenant=asked.case.workspace_id,
    )


def _judged(
    asked: _Asked, ending: RunEnding, report: tuple[TestResult, ...] | str | None
) -> tuple[Outcome, str, tuple[TestResult, ...]]:
    """What the program's ending and its report say together."""
    proof = asked.proof
    results = report if isinstance(report, tuple) else ()
    wanted = named(results, proof.tests)
    shown = wanted or results[:500]
    if ending.how != "exited" or ending.code is None:
        return "error", ending.said, shown
    if ending.code in _NO_COMMAND and proof.expected_exit != ending.code:
        return "error", f"The command was not found or cannot be executed (exit status {ending.code}).", shown
    if proof.tests and isinstance(report, str):
        return "error", f"The report {proof.report} cannot be used: {report}.", shown
    if proof.tests and report is None:
        return "error", f"The command wrote no report to {proof.report} (exit status {ending.code}).", shown
    absent = [each.name for each in wanted if each.outcome in ("missing", "skipped")]
    if absent:
        # A test that did not run says nothing: neither that it passes, nor at the base that it fails.
        return "error", f"Not run, as the report has it: {', '.join(absent[:5])}.", shown
    failed = [each.name for each in wanted if each.outcome == "failed"]
    if failed:
        return "failed", f"Failed: {', '.join(failed[:5])}.", shown
    if ending.code != proof.expected_exit:
        if asked.run.side == "base" and wanted:
            # Others may fail at the base; the named ones are what reproduces the bug.
            return "passed", "The named tests passed.", shown
        return "failed", f"It ended with exit status {ending.code}; {proof.expected_exit} is expected.", shown
    return "passed", "It passed.", shown


def _report(place: Path, path: str | None) -> tuple[TestResult, ...] | str | None:
    """The report that a run left; text says why it cannot be used, None that there is none."""
    if path is None:
        return None
    try:
        raw = _read_below(place, path)
    except OSError:
        return None
    if raw is None:
        return f"it is no file, or over {MAX_REPORT >> 20} MiB"
    try:
        return read_report(raw)
    except BadReport as problem:
        return str(problem)


def _read_below(place: Path, path: str) -> bytes | None:
    """A file below a directory that somebody else wrote into: no link leads us out of it."""
    *directories, name = Path(path).parts
    at = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for each in directories:
            below = os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        # O_NONBLOCK: a pipe in the report's place must not make us wait.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
        with os.fdopen(file, "rb") as opened:
            found = os.fstat(opened.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_REPORT:
                return None
            return opened.read(MAX_REPORT + 1)
    finally:
        os.close(at)


def _fresh(place: Path) -> None:
    """An empty directory, whatever an attempt that was killed left there."""
    remove_tree(place)
    place.mkdir(parents=True, mode=0o700)


def _open_up(place: Path) -> None:
    """Whoever the program runs as inside the sandbox may write in its checkout; the way there stays ours alone."""
    for directory, _, files in os.walk(place):
        Path(directory).chmod(0o777)
        for file in (Path(directory, name) for name in files):
            if not file.is_symlink():
                file.chmod(file.stat().st_mode | 0o666)


def _fingerprint(runtime: Runtime, environment: Environment | None) -> dict[str, Any]:
    """What a run runs in, so that two results can be compared."""
    found: dict[str, Any] = {
        "sandbox": type(runtime).__name__,
        "system": platform.platform(),
        "machine": platform.machine(),
        "network": "none",
    }
    if environment is not None:
        found |= {"environment": environment.name, "path": environment.path, "digest": digest(Path(environment.path))}
    return found
