"""Owns which conversation a memory is part of: the session its caller names, or one inferred from who and when."""

from dataclasses import replace

from holdfast.core.ids import new_id
from holdfast.engines.search.text.speech import opens_with_name, speech
from holdfast.features.memory import store
from holdfast.features.memory.model import Memory, NewMemory
from holdfast.storage.database import Tx

GAP_MILLIS = 30 * 60_000
"""What one caller saves of moments no further apart belongs to one conversation."""


def is_spoken(new: NewMemory, content: str) -> bool:
    """Whether it is part of a conversation: in a session that the caller names, or somebody's words by name."""
    return _names_session(new) or speech(content) is not None


def placed(tx: Tx, made: Memory, new: NewMemory) -> Memory:
    """The memory at its place in its session and its conversation."""
    if made.session_id:
        made = replace(made, position=store.in_session(tx, made.workspace_id, made.session_id))
    if _names_session(new):
        return replace(made, thread=made.session_id or "")
    spoken, at = is_spoken(new, made.content), made.true_from
    if not spoken and not opens_with_name(made.content):
        return made
    # Not only the last one: somebody may save two conversations by turns, or send one in some disorder.
    found = store.find_thread(tx, made, at - GAP_MILLIS, at + GAP_MILLIS)
    if found is None and not spoken:
        return made
    if found is None:
        thread = new_id("thr")
        store.begin_thread(tx, made, thread, at)
        return replace(made, thread=thread, position=0)
    return replace(made, thread=found, position=store.continue_thread(tx, found, at))


def _names_session(new: NewMemory) -> bool:
    return bool((new.session_id or "").strip()) and not new.session_is_connection
