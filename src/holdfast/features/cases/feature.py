"""What cases add to the server: a queue of work that people and agents share, and proofs that close it."""

from holdfast.core.access import READ
from holdfast.core.resources import BRIEF
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Changed, Topic

FEATURE = Feature(
    name="cases",
    commands={"cases": ("commands.cases:cases", "Work items that close only on proof.")},
    operations=("operations.cases", "operations.queue", "operations.proofs"),
    services=(
        *("RunQueue", "CaseService", "CaseReading", "WaitingCases", "CaseExchange", "ProofService"),
        *("SigningKeys", "Runner"),
    ),
    tools=True,
    seals=True,
    entities=True,
    jobs=("case.proof", "case.heads"),
    topics={"case": Topic(READ, lambda event: Changed((BRIEF,)))},
    migrations=(
        *("0038_cases", "0039_proofs", "0052_case_indexes", "0053_repository_environment"),
        *("0058_case_queue", "0059_environment_looks"),
    ),
    contract=("ZE-1", "ZE-2", "ZE-4", "ZE-5"),
)
