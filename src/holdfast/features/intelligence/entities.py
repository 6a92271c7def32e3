"""Owns how decisions and milestones are seen by other features."""

from holdfast.core.access import READ_INTEL
from holdfast.features.intelligence import store
from holdfast.registry.entities import EntityType

ENTITIES = (
    EntityType(name="decision", title=store.decision_title, access=READ_INTEL),
    EntityType(name="milestone", title=store.milestone_title, access=READ_INTEL),
)
