"""Owns how chats are seen by other features."""

from holdfast.features.chat.model import TYPE
from holdfast.registry.entities import EntityType

ENTITIES = (EntityType(name=TYPE, other_names=("chat_turn",)),)
