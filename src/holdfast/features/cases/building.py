"""Owns how cases, their proofs and the runner are built."""

from holdfast.core.clock import Clock
from holdfast.core.parts import Parts
from holdfast.core.settings import Settings
from holdfast.core.tools.tool import AnyTool
from holdfast.engines.events.bus import EventBus
from holdfast.engines.git.engine import GitEngine
from holdfast.engines.jobs.engine import JobEngine
from holdfast.engines.master_key import KeyRing
from holdfast.engines.runtime.base import Runtime
from holdfast.engines.search.engine import SearchEngine
from holdfast.features.audit.service import Audit
from holdfast.features.cases.exchange import CaseExchange
from holdfast.features.cases.proofs.keys import SigningKeys
from holdfast.features.cases.proofs.model import HEADS_KIND, RUN_KIND
from holdfast.features.cases.proofs.queueing import RunQueue
from holdfast.features.cases.proofs.running import Runner
from holdfast.features.cases.proofs.service import ProofService
from holdfast.features.cases.queue.waiting import WaitingCases
from holdfast.features.cases.reading import CaseReading
from holdfast.features.cases.service import CaseService
from holdfast.features.intelligence.base import IntelligenceBase
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.repositories.service import Repositories
from holdfast.features.workspaces.service import Workspaces
from holdfast.registry.entities import Entities
from holdfast.registry.feature import Building
from holdfast.registry.seals import Reseal
from holdfast.storage.database import Database

HEADS_SECONDS = 30.0
AT_ONCE = 2

build = Building()


@build
def queue(parts: Parts) -> RunQueue:
    return RunQueue(parts[JobEngine], parts[Clock])


@build
def cases(parts: Parts) -> CaseService:
    foundation = IntelligenceBase(
        parts[Database], parts[Audit], parts[Workspaces], parts[SearchEngine], parts[EventBus], parts[Clock]
    )
    return CaseService(foundation, parts[IntelligenceService], parts[Repositories], parts[GitEngine], parts[RunQueue])


@build
def reading(parts: Parts) -> CaseReading:
    return CaseReading(parts[CaseService], parts[RunQueue])


@build
def waiting(parts: Parts) -> WaitingCases:
    return WaitingCases(parts[CaseService], parts[RunQueue])


@build
def exchange(parts: Parts) -> CaseExchange:
    return CaseExchange(parts[CaseService], parts[CaseReading])


@build
def keys(parts: Parts) -> SigningKeys:
    return SigningKeys(parts[Database], parts[KeyRing], parts[Clock])


def reseal(parts: Parts) -> Reseal:
    """The private halves of signing keys."""
    return parts[SigningKeys].reseal


@build
def proofs(parts: Parts) -> ProofService:
    data_dir = parts[Settings].data_dir.expanduser().resolve()
    return ProofService(parts[CaseService], parts[RunQueue], parts[SigningKeys], parts[Entities], data_dir)


@build
def runner(parts: Parts) -> Runner:
    return Runner(
        parts[Database],
        parts[GitEngine],
        parts[Runtime],
        parts[EventBus],
        parts[RunQueue],
        parts[Clock],
        parts[Settings].data_dir.expanduser() / "proofs",
    )


def tools(parts: Parts) -> list[AnyTool]:
    """What agents call."""
    from holdfast.features.cases.tools import tools as case_tools

    return case_tools(parts[CaseService], parts[CaseReading], parts[ProofService])


def handle_jobs(parts: Parts) -> None:
    """Run proofs when asked, and look for heads that moved."""
    jobs, running = parts[JobEngine], parts[Runner]
    # One more than a workspace alone gets: a long proof of one does not keep another's waiting.
    jobs.handle(RUN_KIND, running.run, concurrency=AT_ONCE + 1, reserved=1, ended=running.ended)
    jobs.handle(HEADS_KIND, running.follow_heads, concurrency=1, every_seconds=HEADS_SECONDS)
