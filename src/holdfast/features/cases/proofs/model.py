"""Owns the values of proofs: what is claimed, each run of it, and what prepared environments are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.core.errors import NotFound

ProofKind = Literal["run", "reported", "word"]
Outcome = Literal["queued", "running", "passed", "failed", "error"]
"""How far a run is. `failed` is the program's answer; `error` says that it could not be asked."""
Side = Literal["head", "base"]
Verdict = Literal[
    "unrun", "running", "passed", "failed", "error", "stale", "flaky", "not_reproduced", "reported", "word"
]
TestOutcome = Literal["passed", "failed", "skipped", "missing"]
FINISHED: frozenset[Outcome] = frozenset({"passed", "failed", "error"})

RUN_KIND = "case.proof"
HEADS_KIND = "case.heads"
MAX_CLAIM = 4_000
MAX_COMMAND = 8_000
MAX_TESTS = 500
MAX_TEST = 500
OUTPUT_BYTES = 256 * 1024
"""How much of what a run printed is kept; its digest is of all of it."""
USUAL_SECONDS, MOST_SECONDS = 600, 3_600


class ProofNotFound(NotFound):
    def __init__(self, id: str) -> None:
        super().__init__("proof", id)


class EnvironmentNotFound(NotFound):
    def __init__(self, name: str) -> None:
        super().__init__("environment", name)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProof:
    """A claim, and how it can be checked. Agents propose commands; only our runner writes results."""

    kind: ProofKind = "run"
    claim: str = ""
    criteria: tuple[str, ...] = ()
    """The criteria that it shows; none names the whole case."""
    command: str = ""
    expected_exit: int = 0
    tests: tuple[str, ...] = ()
    """Tests that must have passed, by their names in the report."""
    report: str | None = None
    """Where the command writes JUnit XML, below the checkout."""
    is_reproduction: bool = False
    """Whether it shows a bug: it has to fail at the base commit."""
    environment: str | None = None
    timeout_seconds: int = USUAL_SECONDS
    commit: str | None = None
    outcome: Literal["passed", "failed"] | None = None
    """What was seen, as somebody reports it."""
    artifact_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A proof on record."""

    id: str
    workspace_id: str
    case_id: str
    kind: ProofKind
    claim: str
    criteria: tuple[str, ...]
    command: str
    expected_exit: int
    tests: tuple[str, ...]
    report: str | None
    is_reproduction: bool
    environment: str | None
    timeout_seconds: int
    commit: str | None
    outcome: Literal["passed", "failed"] | None
    artifact_id: str | None
    author: str
    author_name: str
    created_at: int


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test of a report."""

    __test__ = False
    name: str
    outcome: TestOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofRun:
    """One time that our runner looked, at one commit."""

    id: str
    proof_id: str
    case_id: str
    commit: str
    side: Side
    outcome: Outcome
    said: str
    """One plain sentence for a person."""
    exit_code: int | None
    tests: tuple[TestResult, ...]
    output: str
    output_bytes: int
    output_digest: str
    seconds: float
    environment: Mapping[str, Any]
    """What it ran in: sandbox, system, prepared environment and its digest."""
    job_id: str | None
    requested_by: str
    created_at: int
    ended_at: int | None


@dataclass(frozen=True, slots=True)
class ProvenProof:
    """A proof with its runs, newest first, and what they say of the head now."""

    proof: Proof
    verdict: Verdict
    why: str
    runs: tuple[ProofRun, ...]


@dataclass(frozen=True, slots=True)
class Environment:
    """A directory of this machine that runs see read-only."""

    workspace_id: str
    name: str
    path: str
    created_by: str
    created_at: int
    digest: str = ""
    """Of the names, sizes and moments of change that were found when somebody last looked."""
    checked_at: int | None = None
    problem: str = ""
    """Why runs cannot use it, as far as is known."""
    repositories: tuple[str, ...] = ()
    """Whose proofs see it where neither they nor their case names one."""
    cases: int = 0
    """How many open cases name it."""
