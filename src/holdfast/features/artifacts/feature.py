"""What artifacts add to the server."""

from holdfast.core.access import READ_INTEL
from holdfast.core.resources import BRIEF, artifact_uri
from holdfast.engines.events.model import Event
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Changed, Topic


def _changed(event: Event) -> Changed:
    is_listed = event.topic.endswith((".create", ".delete"))
    return Changed((artifact_uri(str(event.payload["artifact_id"])), BRIEF), ("resources",) if is_listed else ())


FEATURE = Feature(
    name="artifacts",
    commands={
        "artifacts": ("commands:artifacts", "Artifacts."),
    },
    operations=("operations",),
    services=("ArtifactService",),
    tools=True,
    aliases=True,
    resources=True,
    entities=True,
    topics={"artifact": Topic(READ_INTEL, _changed)},
    migrations=("0008_artifacts",),
    contract=("XM-6", "XS-T6"),
)
