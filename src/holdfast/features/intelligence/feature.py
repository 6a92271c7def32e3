"""What project intelligence adds to the server: decisions, milestones, relations, the brief."""

from holdfast.core.access import READ_INTEL
from holdfast.core.resources import BRIEF, DECISIONS
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Changed, Topic

FEATURE = Feature(
    name="intelligence",
    operations=("operations.decisions", "operations.milestones", "operations.graph", "operations.brief"),
    services=("IntelligenceService",),
    tools=True,
    entities=True,
    reacts=True,
    topics={
        "decision": Topic(READ_INTEL, lambda event: Changed((DECISIONS, BRIEF))),
        "milestone": Topic(READ_INTEL, lambda event: Changed((BRIEF,))),
        "relation": Topic(READ_INTEL, lambda event: Changed((BRIEF,))),
    },
    migrations=("0009_intelligence",),
)
