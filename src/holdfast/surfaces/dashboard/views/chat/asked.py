"""Owns calls that a chat stopped at until a person decides: what the card inside the conversation shows of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.core.errors import Forbidden, NotFound
from holdfast.features.chat.model import ThreadMessage
from holdfast.features.execution.approvals.service import Approvals, PendingCall
from holdfast.surfaces.dashboard.shell.view import PageView
from holdfast.surfaces.dashboard.views.approvals import pretty, shown_changes


@dataclass(frozen=True, slots=True)
class AskedApproval:
    """A call that waits or waited, as the card shows it."""

    asked: PendingCall
    arguments: str
    changes: Sequence[Mapping[str, str]]


async def asked_approvals(
    view: PageView, approvals: Approvals, messages: Sequence[ThreadMessage]
) -> Mapping[str, AskedApproval]:
    """The calls that these messages stopped at, by the approval's id; without what the person may not see."""
    found: dict[str, AskedApproval] = {}
    for each in messages:
        if each.question is None or not each.question.is_approval:
            continue
        try:
            asked = await approvals.get(view.principal, each.question.correlation_id)
        except (NotFound, Forbidden):
            continue
        found[each.question.correlation_id] = AskedApproval(asked, pretty(asked), shown_changes(asked))
    return found
