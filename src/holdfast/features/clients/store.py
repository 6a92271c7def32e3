"""Owns the SQL of MCP sessions, their events and mail, and of the clients seen here."""

import json
from collections.abc import Sequence

from holdfast.features.clients.model import ClientSeen, McpSession, NewClient, StreamEvent
from holdfast.storage.database import Row, Tx

_SESSION = (
    "id, organization_id, project_id, owner, workspace_id, protocol_version, "
    "client_name, client_version, capabilities, created_at, expires_at"
)


def insert_session(tx: Tx, session: McpSession) -> None:
    """Keep a new session."""
    tx.execute(
        f"INSERT INTO mcp_session ({_SESSION}) VALUES (:id, :organization_id, :project_id, :owner, :workspace_id, "
        ":protocol_version, :client_name, :client_version, :capabilities, :created_at, :expires_at)",
        {
            "id": session.id,
            "organization_id": session.organization_id,
            "project_id": session.project_id,
            "owner": session.owner,
            "workspace_id": session.workspace_id,
            "protocol_version": session.protocol_version,
            "client_name": session.client_name,
            "client_version": session.client_version,
            "capabilities": json.dumps(dict(session.capabilities)),
            "created_at": session.created_at,
            "expires_at": session.expires_at,
        },
    )


def find_session(tx: Tx, id: str) -> McpSession | None:
    """A session, expired or not."""
    row = tx.one(f"SELECT {_SESSION} FROM mcp_session WHERE id = :id", {"id": id})
    return None if row is None else _session(row)


def count_sessions(tx: Tx, now: int) -> int:
    """How many sessions have not expired."""
    row = tx.one("SELECT COUNT(*) AS n FROM mcp_session WHERE expires_at > :now", {"now": now})
    return int(row["n"]) if row else 0


def count_sessions_of(tx: Tx, owner: str, now: int) -> int:
    """How many of one credential's sessions have not expired."""
    row = tx.one(
        "SELECT COUNT(*) AS n FROM mcp_session WHERE owner = :owner AND expires_at > :now", {"owner": owner, "now": now}
    )
    return int(row["n"]) if row else 0


def extend_session(tx: Tx, id: str, expires_at: int) -> None:
    """Let a session live longer; it is never shortened by a slower replica."""
    tx.execute(
        "UPDATE mcp_session SET expires_at = :expires_at WHERE id = :id AND expires_at < :expires_at",
        {"id": id, "expires_at": expires_at},
    )


def bind_session(tx: Tx, id: str, workspace_id: str) -> None:
    """Bind a session to a workspace."""
    tx.execute("UPDATE mcp_session SET workspace_id = :ws WHERE id = :id", {"id": id, "ws": workspace_id})


def introduce_session(tx: Tx, id: str, client: NewClient) -> None:
    """Keep how a session's client introduced itself."""
    tx.execute(
        "UPDATE mcp_session SET protocol_version = :protocol_version, client_name = :name, client_version = :version, "
        "capabilities = :capabilities WHERE id = :id",
        {
            "id": id,
            "protocol_version": client.protocol_version,
            "name": client.name[:120],
            "version": client.version[:120],
            "capabilities": json.dumps(dict(client.capabilities)),
        },
    )


def delete_session(tx: Tx, id: str) -> None:
    """End a session; what hangs on it goes too."""
    tx.execute("DELETE FROM mcp_session WHERE id = :id", {"id": id})


def sweep(tx: Tx, now: int, events_before: int) -> int:
    """Remove what has expired; how many sessions that were."""
    tx.execute("DELETE FROM mcp_event WHERE created_at < :before", {"before": events_before})
    tx.execute("DELETE FROM mcp_spent_state WHERE expires_at < :now", {"now": now})
    return tx.execute("DELETE FROM mcp_session WHERE expires_at <= :now", {"now": now})


def append_event(tx: Tx, session_id: str, stream: str, message: str, is_final: bool, now: int) -> int | None:
    """Add to a stream; the event's id, or None when the session has ended."""
    row = tx.one(
        "INSERT INTO mcp_event (session_id, stream, message, is_final, created_at) "
        "SELECT id, :stream, :message, :is_final, :now FROM mcp_session WHERE id = :session_id RETURNING id",
        {
            "session_id": session_id,
            "stream": stream,
            "message": message,
            "is_final": int(is_final),
            "now": now,
        },
    )
    return None if row is None else int(row["id"])


def find_event(tx: Tx, session_id: str, id: int) -> StreamEvent | None:
    """One event, if it is this session's."""
    row = tx.one(
        "SELECT id, stream, message, is_final FROM mcp_event WHERE id = :id AND session_id = :session_id",
        {"id": id, "session_id": session_id},
    )
    return None if row is None else _event(row)


def events_after(tx: Tx, session_id: str, stream: str, after: int, limit: int) -> list[StreamEvent]:
    """What a stream said after an event, oldest first."""
    rows = tx.all(
        "SELECT id, stream, message, is_final FROM mcp_event "
        "WHERE session_id = :session_id AND stream = :stream AND id > :after ORDER BY id LIMIT :limit",
        {"session_id": session_id, "stream": stream, "after": after, "limit": limit},
    )
    return [_event(row) for row in rows]


def last_event(tx: Tx, session_id: str, stream: str) -> int:
    """The id of a stream's newest event; 0 for none."""
    row = tx.one(
        "SELECT MAX(id) AS id FROM mcp_event WHERE session_id = :session_id AND stream = :stream",
        {"session_id": session_id, "stream": stream},
    )
    return int(row["id"] or 0) if row else 0


def put_mail(tx: Tx, session_id: str, about: str, message: str) -> None:
    """Leave a message for whichever replica waits for it; nothing where the session has ended."""
    tx.execute(
        "INSERT INTO mcp_mail (session_id, about, message) SELECT id, :about, :message FROM mcp_session "
        "WHERE id = :session_id ON CONFLICT (session_id, about) DO NOTHING",
        {"session_id": session_id, "about": about, "message": message},
    )


def find_mail(tx: Tx, session_id: str, about: str) -> str | None:
    """A message left for this replica."""
    row = tx.one(
        "SELECT message FROM mcp_mail WHERE session_id = :session_id AND about = :about",
        {"session_id": session_id, "about": about},
    )
    return None if row is None else str(row["message"])


def subscribe(tx: Tx, session_id: str, uri: str) -> None:
    """Remember what a session wants to hear about."""
    tx.execute(
        "INSERT INTO mcp_subscription (session_id, uri) VALUES (:session_id, :uri) "
        "ON CONFLICT (session_id, uri) DO NOTHING",
        {"session_id": session_id, "uri": uri},
    )


def unsubscribe(tx: Tx, session_id: str, uri: str) -> None:
    """Forget it."""
    tx.execute(
        "DELETE FROM mcp_subscription WHERE session_id = :session_id AND uri = :uri",
        {"session_id": session_id, "uri": uri},
    )


def subscriptions(tx: Tx, session_id: str) -> list[str]:
    """What a session wants to hear about."""
    rows = tx.all("SELECT uri FROM mcp_subscription WHERE session_id = :id ORDER BY uri", {"id": session_id})
    return [str(row["uri"]) for row in rows]


def spend_state(tx: Tx, nonce: str, expires_at: int) -> bool:
    """Use up a request state; False when it has been used before."""
    return (
        tx.execute(
            "INSERT INTO mcp_spent_state (nonce, expires_at) VALUES (:nonce, :expires_at) "
            "ON CONFLICT (nonce) DO NOTHING",
            {"nonce": nonce, "expires_at": expires_at},
        )
        > 0
    )


def see_client(tx: Tx, organization_id: str, client: NewClient, now: int) -> None:
    """Record what a client declared; the newest declaration of a version counts."""
    tx.execute(
        "INSERT INTO mcp_client (organization_id, name, version, protocol_version, title, capabilities, "
        "first_seen_at, last_seen_at) VALUES (:organization_id, :name, :version, :protocol_version, :title, "
        ":capabilities, :now, :now) ON CONFLICT (organization_id, name, version, protocol_version) DO UPDATE SET "
        "title = excluded.title, capabilities = excluded.capabilities, last_seen_at = excluded.last_seen_at",
        {
            "organization_id": organization_id,
            "name": client.name,
            "version": client.version,
            "protocol_version": client.protocol_version,
            "title": client.title,
            "capabilities": json.dumps(dict(client.capabilities)),
            "now": now,
        },
    )


def clients(tx: Tx, organization_id: str, limit: int, after: int = 0) -> Sequence[ClientSeen]:
    """The clients seen in an organization, most recent first."""
    rows = tx.all(
        "SELECT name, version, protocol_version, title, capabilities, first_seen_at, last_seen_at FROM mcp_client "
        "WHERE organization_id = :organization_id ORDER BY last_seen_at DESC, name, version LIMIT :limit "
        "OFFSET :after",
        {"organization_id": organization_id, "limit": limit, "after": after},
    )
    return [
        ClientSeen(
            row["name"],
            row["version"],
            row["protocol_version"],
            row["title"],
            json.loads(row["capabilities"]),
            int(row["first_seen_at"]),
            int(row["last_seen_at"]),
        )
        for row in rows
    ]


def secret(tx: Tx, name: str, fresh: bytes) -> bytes:
    """The server's secret of that name, made from `fresh` the first time anybody asks."""
    tx.execute(
        "INSERT INTO server_secret (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING",
        {"name": name, "value": fresh},
    )
    row = tx.one("SELECT value FROM server_secret WHERE name = :name", {"name": name})
    if row is None:
        raise AssertionError("the secret was just inserted")
    return bytes(row["value"])


def _session(row: Row) -> McpSession:
    return McpSession(
        row["id"],
        row["organization_id"],
        row["project_id"],
        row["owner"],
        row["workspace_id"],
        row["protocol_version"],
        row["client_name"],
        row["client_version"],
        json.loads(row["capabilities"]),
        int(row["created_at"]),
        int(row["expires_at"]),
    )


def _event(row: Row) -> StreamEvent:
    return StreamEvent(int(row["id"]), row["stream"], row["message"], bool(row["is_final"]))
