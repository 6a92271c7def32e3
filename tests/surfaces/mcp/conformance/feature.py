"""What the MCP conformance suite asks a server to have, brought as any feature brings its parts."""

from holdfast.core.access import READ
from holdfast.engines.events.model import Event
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Changed, Topic


def _changed(event: Event) -> Changed:
    return Changed(lists=("tools",) if event.topic == "conformance.tools" else ("prompts",))


FEATURE = Feature(
    name="conformance",
    package="tests.surfaces.mcp",
    tools=True,
    prompts=True,
    resources=True,
    methods=True,
    topics={"conformance": Topic(READ, _changed)},
)
