"""What memory adds to the server."""

from holdfast.core.access import READ
from holdfast.core.resources import BRIEF, memory_uri
from holdfast.engines.events.model import Event
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Changed, Topic


def _changed(event: Event) -> Changed:
    is_listed = event.payload.get("action") != "edit"
    return Changed((memory_uri(str(event.payload["slug"])), BRIEF), ("resources",) if is_listed else ())


FEATURE = Feature(
    name="memory",
    commands={
        "memory": ("commands:memory", "Memories."),
        "search": ("commands:search", "Search everything in a workspace."),
    },
    services=("MemoryService", "Contradictions", "MemoryOverview"),
    tools=True,
    aliases=True,
    prompts=True,
    resources=True,
    operations=("operations",),
    entities=True,
    topics={"memory": Topic(READ, _changed)},
    migrations=("0006_memory", "0026_memory_visibility", "0031_contradictions", "0041_conversations"),
    contract=("XM-4", "XS-T8"),
)
