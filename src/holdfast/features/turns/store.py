"""Owns the SQL that finds chats which wait for a call that has ended."""

from holdfast.storage.database import Tx


def ended_approvals(tx: Tx) -> list[tuple[str, str, str, str]]:
    """Workspace, chat, question and invocation of each question whose call is over."""
    rows = tx.all(
        "SELECT invocation.workspace_id, chat_question.chat_id, chat_question.correlation_id, "
        "approval.invocation_id FROM chat_question JOIN approval ON approval.id = chat_question.correlation_id "
        "JOIN invocation ON invocation.id = approval.invocation_id WHERE chat_question.state = 'pending' "
        "AND invocation.ended_at IS NOT NULL LIMIT 100"
    )
    return [(row["workspace_id"], row["chat_id"], row["correlation_id"], row["invocation_id"]) for row in rows]
