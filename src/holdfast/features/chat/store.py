"""Owns the SQL of chats, messages and questions."""

import json
from collections.abc import Sequence
from typing import Any

from holdfast.core.text import jsontext
from holdfast.features.chat.finding import index
from holdfast.features.chat.model import Chat, ChatMessage, ChatQuestion, Placed
from holdfast.features.chat.turn.trail import text_of
from holdfast.storage.database import Row, Tx

SAID_BY = ("user", "assistant")
"""Whose words a chat is found by: not those of tools."""
_IN_CHAT = "WHERE workspace_id = :workspace_id AND chat_id = :chat_id "


def insert(tx: Tx, chat: Chat) -> bool:
    """Keep a new chat; False when there is one of this id."""
    made = bool(
        tx.execute(
            "INSERT INTO chat (workspace_id, id, title, endpoint, created_by, created_by_name, created_at, updated_at) "
            "VALUES (:workspace_id, :id, :title, :endpoint, :created_by, :created_by_name, :created_at, :updated_at) "
            "ON CONFLICT (workspace_id, id) DO NOTHING",
            {
                "workspace_id": chat.workspace_id,
                "id": chat.id,
                "title": chat.title,
                "endpoint": chat.endpoint,
                "created_by": chat.created_by,
                "created_by_name": chat.created_by_name,
                "created_at": chat.created_at,
                "updated_at": chat.updated_at,
            },
        )
    )
    if made:
        index.put_title(tx, chat.workspace_id, chat.id, chat.title, chat.created_at)
    return made


def find(tx: Tx, workspace_id: str, chat_id: str) -> Chat | None:
    row = tx.one(
        "SELECT * FROM chat WHERE workspace_id = :workspace_id AND id = :chat_id",
        {"workspace_id": workspace_id, "chat_id": chat_id},
    )
    return None if row is None else _with_totals(tx, workspace_id, [row])[0]


def exists(tx: Tx, workspace_id: str, chat_id: str) -> bool:
    """Whether the workspace has a chat of that id."""
    row = tx.one(
        "SELECT 1 AS found FROM chat WHERE workspace_id = :workspace_id AND id = :chat_id",
        # PostgreSQL takes no NUL, and no chat is named with one.
        {"workspace_id": workspace_id, "chat_id": chat_id.replace("\x00", "")},
    )
    return row is not None


def page(tx: Tx, workspace_id: str, before: tuple[int, str] | None, limit: int) -> list[Chat]:
    """Chats by their last message, newest first."""
    at, last = before or (2**62, "")
    rows = tx.all(
        "SELECT * FROM chat WHERE workspace_id = :workspace_id "
        "AND (updated_at < :at OR (updated_at = :at AND id < :last)) ORDER BY updated_at DESC, id DESC LIMIT :limit",
        {"workspace_id": workspace_id, "at": at, "last": last, "limit": limit},
    )
    return _with_totals(tx, workspace_id, rows)


def touch(tx: Tx, chat: Chat, *, now: int, title: str | None = None, endpoint: str | None = None) -> bool:
    """Say that the chat changed; False when it is gone.

    Holds its row, so that its messages are numbered one transaction at a time.
    """
    changed = tx.execute(
        "UPDATE chat SET updated_at = :now, title = COALESCE(:title, title), endpoint = COALESCE(:endpoint, endpoint) "
        "WHERE workspace_id = :workspace_id AND id = :id",
        {"now": now, "title": title, "endpoint": endpoint, "workspace_id": chat.workspace_id, "id": chat.id},
    )
    if changed and title is not None:
        index.retitle(tx, chat.workspace_id, chat.id, title)
    return changed > 0


def delete(tx: Tx, workspace_id: str, chat_id: str) -> None:
    tx.execute(
        "DELETE FROM chat WHERE workspace_id = :workspace_id AND id = :chat_id",
        {"workspace_id": workspace_id, "chat_id": chat_id},
    )


def message_ids(tx: Tx, workspace_id: str, chat_id: str) -> dict[str, str]:
    """The ids of the chat's messages by their trails."""
    rows = tx.all("SELECT id, trail FROM chat_message " + _IN_CHAT, {"workspace_id": workspace_id, "chat_id": chat_id})
    return {row["trail"]: row["id"] for row in rows}


def next_number(tx: Tx, workspace_id: str, chat_id: str) -> int:
    row = tx.one(
        "SELECT COALESCE(MAX(number), 0) AS last FROM chat_message " + _IN_CHAT,
        {"workspace_id": workspace_id, "chat_id": chat_id},
    )
    return int(row["last"]) + 1 if row else 1


def insert_message(tx: Tx, workspace_id: str, message: ChatMessage) -> str:
    """Keep a message; an equal one in the same place is the same, and only its costs grow. The id that it has."""
    row = tx.one(
        "INSERT INTO chat_message (id, workspace_id, chat_id, number, parent_id, trail, role, message, state, model, "
        "finish_reason, calls, memories, tokens_in, tokens_out, cost, author, created_at) VALUES (:id, "
        ":workspace_id, :chat_id, :number, :parent_id, :trail, :role, :message, :state, :model, :finish_reason, "
        ":calls, :memories, :tokens_in, :tokens_out, :cost, :author, :created_at) "
        "ON CONFLICT (workspace_id, chat_id, trail) DO UPDATE "
        "SET tokens_in = chat_message.tokens_in + excluded.tokens_in, "
        "tokens_out = chat_message.tokens_out + excluded.tokens_out, cost = chat_message.cost + excluded.cost "
        "RETURNING id",
        {
            "id": message.id,
            "workspace_id": workspace_id,
            "chat_id": message.chat_id,
            "number": message.number,
            "parent_id": message.parent_id,
            "trail": message.trail,
            "role": message.role[:50],
            "message": _text(message.message),
            "state": message.state,
            "model": message.model,
            "finish_reason": message.finish_reason,
            "calls": _text(list(message.calls)),
            "memories": _text(list(message.memories)),
            "tokens_in": message.tokens_in,
            "tokens_out": message.tokens_out,
            "cost": message.cost,
            "author": message.author,
            "created_at": message.created_at,
        },
    )
    id = str(row["id"]) if row else message.id
    if message.role in SAID_BY:
        index.put_message(tx, workspace_id, message.chat_id, id, text_of(message.message), message.created_at)
    return id


def messages(tx: Tx, workspace_id: str, chat_id: str, *, after: int = 0, limit: int) -> list[ChatMessage]:
    """The chat's messages of every branch, in the order that they came."""
    rows = tx.all(
        "SELECT * FROM chat_message " + _IN_CHAT + "AND number > :after ORDER BY number, id LIMIT :limit",
        {"workspace_id": workspace_id, "chat_id": chat_id, "after": after, "limit": limit},
    )
    return [_message(row) for row in rows]


def find_message(tx: Tx, workspace_id: str, chat_id: str, message_id: str) -> ChatMessage | None:
    row = tx.one(
        "SELECT * FROM chat_message " + _IN_CHAT + "AND id = :id",
        {"workspace_id": workspace_id, "chat_id": chat_id, "id": message_id},
    )
    return None if row is None else _message(row)


def branch(tx: Tx, workspace_id: str, chat_id: str, leaf_id: str) -> list[ChatMessage]:
    """The messages from the first to this one."""
    rows = tx.all(
        "WITH RECURSIVE path(id, parent_id) AS ("
        "SELECT id, parent_id FROM chat_message " + _IN_CHAT + "AND id = :leaf UNION ALL "
        "SELECT m.id, m.parent_id FROM chat_message m JOIN path p ON m.id = p.parent_id) "
        "SELECT c.* FROM chat_message c JOIN path ON path.id = c.id ORDER BY c.number, c.id",
        {"workspace_id": workspace_id, "chat_id": chat_id, "leaf": leaf_id},
    )
    return [_message(row) for row in rows]


def outline(tx: Tx, workspace_id: str, chat_id: str) -> list[Placed]:
    """Where every message of the chat stands, in the order that they came."""
    rows = tx.all(
        "SELECT id, parent_id FROM chat_message " + _IN_CHAT + "ORDER BY number, id",
        {"workspace_id": workspace_id, "chat_id": chat_id},
    )
    return [Placed(row["id"], row["parent_id"]) for row in rows]


def by_ids(tx: Tx, workspace_id: str, chat_id: str, ids: Sequence[str]) -> dict[str, ChatMessage]:
    """Messages of the chat by their ids."""
    names = {f"id_{number}": id for number, id in enumerate(ids)}
    if not names:
        return {}
    rows = tx.all(
        "SELECT * FROM chat_message " + _IN_CHAT + f"AND id IN ({', '.join(f':{name}' for name in names)})",
        {"workspace_id": workspace_id, "chat_id": chat_id, **names},
    )
    return {row["id"]: _message(row) for row in rows}


def insert_question(tx: Tx, workspace_id: str, question: ChatQuestion) -> None:
    tx.execute(
        "INSERT INTO chat_question (correlation_id, workspace_id, chat_id, message_id, call_id, question, transcript, "
        "state, asked_at, answer, answered_by, answered_at) VALUES (:correlation_id, :workspace_id, :chat_id, "
        ":message_id, :call_id, :question, :transcript, :state, :asked_at, :answer, :answered_by, :answered_at)",
        {
            "correlation_id": question.correlation_id,
            "workspace_id": workspace_id,
            "chat_id": question.chat_id,
            "message_id": question.message_id,
            "call_id": question.call_id,
            "question": _text(question.question),
            "transcript": _text(list(question.transcript)),
            "state": question.state,
            "asked_at": question.asked_at,
            "answer": None if question.answered_at is None else _text(question.answer),
            "answered_by": question.answered_by,
            "answered_at": question.answered_at,
        },
    )


def find_question(tx: Tx, workspace_id: str, chat_id: str, correlation_id: str) -> ChatQuestion | None:
    row = tx.one(
        "SELECT * FROM chat_question " + _IN_CHAT + "AND correlation_id = :id",
        {"workspace_id": workspace_id, "chat_id": chat_id, "id": correlation_id},
    )
    return None if row is None else _question(row)


def questions(tx: Tx, workspace_id: str, chat_id: str, *, after: str = "", limit: int) -> list[ChatQuestion]:
    """The chat's questions, the first asked first."""
    rows = tx.all(
        "SELECT * FROM chat_question " + _IN_CHAT + "AND correlation_id > :after ORDER BY correlation_id LIMIT :limit",
        {"workspace_id": workspace_id, "chat_id": chat_id, "after": after, "limit": limit},
    )
    return [_question(row) for row in rows]


def questions_of(tx: Tx, workspace_id: str, chat_id: str, message_ids: Sequence[str]) -> dict[str, ChatQuestion]:
    """What the model asked with these messages."""
    names = {f"id_{number}": id for number, id in enumerate(message_ids)}
    if not names:
        return {}
    rows = tx.all(
        "SELECT * FROM chat_question " + _IN_CHAT + f"AND message_id IN ({', '.join(f':{name}' for name in names)})",
        {"workspace_id": workspace_id, "chat_id": chat_id, **names},
    )
    return {row["message_id"]: _question(row) for row in rows}


def open_questions(tx: Tx, workspace_id: str, chat_id: str) -> list[ChatQuestion]:
    """Those that no turn went on from yet, the last asked first."""
    rows = tx.all(
        "SELECT * FROM chat_question " + _IN_CHAT + "AND state <> 'resumed' ORDER BY correlation_id DESC LIMIT 20",
        {"workspace_id": workspace_id, "chat_id": chat_id},
    )
    return [_question(row) for row in rows]


def waiting_questions(tx: Tx, workspace_id: str, limit: int) -> list[tuple[ChatQuestion, str]]:
    """Those of every chat that nobody answered yet with their chats' titles, the last asked first."""
    rows = tx.all(
        "SELECT q.*, c.title AS chat_title FROM chat_question q "
        "JOIN chat c ON c.workspace_id = q.workspace_id AND c.id = q.chat_id "
        "WHERE q.workspace_id = :workspace_id AND q.state = 'pending' ORDER BY q.correlation_id DESC LIMIT :limit",
        {"workspace_id": workspace_id, "limit": limit},
    )
    return [(_question(row), row["chat_title"]) for row in rows]


def answer_question(tx: Tx, correlation_id: str, answer: Any, *, by: str, now: int) -> bool:
    """Keep the answer; False when there is one."""
    return bool(
        tx.execute(
            "UPDATE chat_question SET state = 'answered', answer = :answer, answered_by = :by, answered_at = :now "
            "WHERE correlation_id = :id AND state = 'pending'",
            {"answer": _text(answer), "by": by, "now": now, "id": correlation_id},
        )
    )


def mark_resumed(tx: Tx, correlation_id: str) -> None:
    tx.execute("UPDATE chat_question SET state = 'resumed' WHERE correlation_id = :id", {"id": correlation_id})


def keep_continuation(tx: Tx, workspace_id: str, digest: str, chat_id: str | None, messages: str, now: int) -> None:
    """Keep the rounds of a turn; the same turn again replaces them. Nothing, where the chat is gone."""
    tx.execute(
        "INSERT INTO continuation (workspace_id, digest, chat_id, messages, size, created_at) "
        "SELECT :workspace_id, :digest, CAST(:chat_id AS TEXT), :messages, :size, :now "
        "WHERE CAST(:chat_id AS TEXT) IS NULL OR EXISTS "
        "(SELECT 1 FROM chat WHERE workspace_id = :workspace_id AND id = :chat_id) ON CONFLICT (workspace_id, digest) "
        "DO UPDATE SET messages = excluded.messages, size = excluded.size, created_at = excluded.created_at",
        {
            "workspace_id": workspace_id,
            "digest": digest,
            "chat_id": chat_id,
            "messages": messages,
            "size": len(messages.encode()),
            "now": now,
        },
    )


def trim_continuations(tx: Tx, workspace_id: str, before: int, max_bytes: int) -> None:
    """Forget what is old outside of chats, and the oldest of all that is too much."""
    place = {"workspace_id": workspace_id}
    tx.execute(
        "DELETE FROM continuation WHERE workspace_id = :workspace_id AND chat_id IS NULL AND created_at < :before",
        {**place, "before": before},
    )
    tx.execute(
        "DELETE FROM continuation WHERE workspace_id = :workspace_id AND digest IN (SELECT digest FROM ("
        "SELECT digest, SUM(size) OVER (ORDER BY created_at DESC, digest) AS total FROM continuation "
        "WHERE workspace_id = :workspace_id) AS newest WHERE total > :max_bytes)",
        {**place, "max_bytes": max_bytes},
    )


def continuations(tx: Tx, workspace_id: str, digests: Sequence[str], oldest: int) -> dict[str, str]:
    """The kept rounds by their digests."""
    names = {f"digest_{number}": digest for number, digest in enumerate(digests)}
    rows = tx.all(
        "SELECT digest, messages FROM continuation WHERE workspace_id = :workspace_id AND digest IN ("
        + ", ".join(f":{name}" for name in names)
        + ") AND (chat_id IS NOT NULL OR created_at >= :oldest)",
        {"workspace_id": workspace_id, "oldest": oldest, **names},
    )
    return {row["digest"]: row["messages"] for row in rows}


def _text(value: Any) -> str:
    return jsontext.dumps(value).decode()


def _with_totals(tx: Tx, workspace_id: str, rows: Sequence[Row]) -> list[Chat]:
    """Chats with the sums of their messages."""
    if not rows:
        return []
    names = {f"chat_{number}": row["id"] for number, row in enumerate(rows)}
    sums = tx.all(
        "SELECT chat_id, COUNT(*) AS messages, SUM(tokens_in) AS tokens_in, SUM(tokens_out) AS tokens_out, "
        "SUM(cost) AS cost FROM chat_message WHERE workspace_id = :workspace_id AND chat_id IN ("
        + ", ".join(f":{name}" for name in names)
        + ") GROUP BY chat_id",
        {"workspace_id": workspace_id, **names},
    )
    totals = {each["chat_id"]: each for each in sums}
    return [_chat(row, totals.get(row["id"])) for row in rows]


def _chat(row: Row, sums: Row | None) -> Chat:
    return Chat(
        workspace_id=row["workspace_id"],
        id=row["id"],
        title=row["title"],
        endpoint=row["endpoint"],
        created_by=row["created_by"],
        created_by_name=row["created_by_name"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        messages=int(sums["messages"]) if sums else 0,
        tokens_in=int(sums["tokens_in"]) if sums else 0,
        tokens_out=int(sums["tokens_out"]) if sums else 0,
        cost=float(sums["cost"]) if sums else 0,
    )


def _message(row: Row) -> ChatMessage:
    return ChatMessage(
        id=row["id"],
        chat_id=row["chat_id"],
        number=row["number"],
        parent_id=row["parent_id"],
        trail=row["trail"],
        role=row["role"],
        message=json.loads(row["message"]),
        author=row["author"],
        created_at=row["created_at"],
        state=row["state"],
        model=row["model"],
        finish_reason=row["finish_reason"],
        calls=json.loads(row["calls"]),
        memories=json.loads(row["memories"]),
        tokens_in=row["tokens_in"],
        tokens_out=row["tokens_out"],
        cost=row["cost"],
    )


def _question(row: Row) -> ChatQuestion:
    return ChatQuestion(
        correlation_id=row["correlation_id"],
        chat_id=row["chat_id"],
        message_id=row["message_id"],
        call_id=row["call_id"],
        question=json.loads(row["question"]),
        transcript=json.loads(row["transcript"]),
        state=row["state"],
        answer=None if row["answer"] is None else json.loads(row["answer"]),
        answered_by=row["answered_by"],
        asked_at=row["asked_at"],
        answered_at=row["answered_at"],
    )
