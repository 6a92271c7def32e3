"""Owns the rows of unfinished researches, one for each question that somebody asked in a chat or without one."""

from dataclasses import dataclass

from holdfast.storage.database import Tx

_KEY = "workspace_id = :workspace_id AND actor = :actor AND question = :question"


@dataclass(frozen=True, slots=True)
class RunKey:
    """Who asked what, and where; `question` is a digest."""

    workspace_id: str
    actor: str
    question: str

    def params(self) -> dict[str, object]:
        return {"workspace_id": self.workspace_id, "actor": self.actor, "question": self.question}


def find(tx: Tx, key: RunKey, since: int) -> tuple[str, int] | None:
    """The saved state and when the research began, unless it is older."""
    sql = f"SELECT state, started_at FROM deep_think_run WHERE {_KEY} AND updated_at >= :since"
    row = tx.one(sql, {**key.params(), "since": since})
    return None if row is None else (row["state"], row["started_at"])


def put(tx: Tx, key: RunKey, chat_id: str | None, state: str, started_at: int, now: int) -> None:
    """Save a state in place of the one before; it goes with its chat."""
    tx.execute(
        "INSERT INTO deep_think_run (workspace_id, actor, chat_id, question, state, started_at, updated_at) "
        "VALUES (:workspace_id, :actor, :chat_id, :question, :state, :started_at, :now) "
        "ON CONFLICT (workspace_id, actor, question) DO UPDATE SET state = excluded.state, "
        "started_at = excluded.started_at, updated_at = excluded.updated_at",
        {**key.params(), "chat_id": chat_id, "state": state, "started_at": started_at, "now": now},
    )


def remove(tx: Tx, key: RunKey) -> None:
    tx.execute(f"DELETE FROM deep_think_run WHERE {_KEY}", key.params())


def remove_old(tx: Tx, before: int) -> None:
    tx.execute("DELETE FROM deep_think_run WHERE updated_at < :before", {"before": before})
