"""Owns the way through a chat's tree of messages: which branch is followed, and what stands beside each message."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from holdfast.features.chat.model import Placed


def followed(placed: Sequence[Placed], at: str | None) -> list[str]:
    """The conversation through a message to its newest end, by ids; without one, to the newest message of all.

    Empty where there is no such message.
    """
    parents = {each.id: each.parent_id for each in placed}
    if at is not None and at not in parents:
        return []
    # In the order that they came, so that the last one kept is the newest.
    newest = {each.parent_id: each.id for each in placed}
    here = at or (placed[-1].id if placed else None)
    while here in newest:
        here = newest[here]
    path: list[str] = []
    while here is not None:
        path.append(here)
        here = parents.get(here)
    return path[::-1]


def others(placed: Sequence[Placed]) -> Mapping[str, Sequence[str]]:
    """For each message every one that follows the same one, itself included."""
    together: defaultdict[str | None, list[str]] = defaultdict(list)
    for each in placed:
        together[each.parent_id].append(each.id)
    return {each.id: together[each.parent_id] for each in placed}
