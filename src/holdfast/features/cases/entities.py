"""Owns how cases are seen by other features."""

from holdfast.features.cases import store
from holdfast.registry.entities import EntityType

ENTITIES = (EntityType(name="case", title=store.title, recent=store.recent, blockers=store.blocking, ties=store.ties),)
