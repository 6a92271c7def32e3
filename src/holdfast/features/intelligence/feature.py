"""What project intelligence adds to the server: decisions, milestones, relations, the brief."""

from holdfast.core.access import READ_INTEL
from holdfast.core.resources import BRIEF, DECISIONS
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Changed, Topic

FEATURE = Feature(
    name="intelligence",
    commands={
        "decisions": ("commands.decisions:decisions", "Decisions."),
        "milestones": ("commands.milestones:milestones", "Milestones."),
        "graph": ("commands.graph:graph", "Relations between what is known."),
        "brief": ("commands.brief:brief", "Where the project stands."),
        "analyze": ("commands.brief:analyze", "A written synthesis of what is known."),
        "timeline": ("commands.milestones:timeline", "Milestones in order."),
    },
    operations=("operations.decisions", "operations.milestones", "operations.graph", "operations.brief"),
    services=("IntelligenceService",),
    tools=True,
    prompts=True,
    resources=True,
    entities=True,
    reacts=True,
    topics={
        "decision": Topic(READ_INTEL, lambda event: Changed((DECISIONS, BRIEF))),
        "milestone": Topic(READ_INTEL, lambda event: Changed((BRIEF,))),
        "relation": Topic(READ_INTEL, lambda event: Changed((BRIEF,))),
    },
    migrations=("0009_intelligence",),
    contract=("XM-7", "XM-16", "XM-17"),
)
