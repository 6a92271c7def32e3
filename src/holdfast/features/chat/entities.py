"""Owns how chats are seen by other features."""

from holdfast.features.chat import store
from holdfast.features.chat.model import TYPE
from holdfast.registry.entities import EntityType
from holdfast.storage.database import Tx


def _title(tx: Tx, workspace_id: str, id: str) -> str | None:
    found = store.find(tx, workspace_id, id)
    return None if found is None else found.title or id


ENTITIES = (EntityType(name=TYPE, title=_title, other_names=("chat_turn",)),)
