-- What MCP clients leave with us: their sessions, the events of their streams, and what they said they can do.

CREATE TABLE mcp_session (
    id TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organization(id) ON DELETE CASCADE,
    project_id TEXT NOT NULL REFERENCES project(id) ON DELETE CASCADE,
    owner TEXT NOT NULL,
    workspace_id TEXT REFERENCES workspace(id) ON DELETE CASCADE,
    protocol_version TEXT NOT NULL,
    client_name TEXT NOT NULL,
    client_version TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
);

CREATE INDEX mcp_session_expires ON mcp_session(expires_at);
CREATE INDEX mcp_session_owner ON mcp_session(owner, expires_at);
CREATE INDEX mcp_session_workspace ON mcp_session(workspace_id);

CREATE TABLE mcp_event (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL REFERENCES mcp_session(id) ON DELETE CASCADE,
    stream TEXT NOT NULL,
    message TEXT NOT NULL,
    is_final INTEGER NOT NULL,
    created_at INTEGER NOT NULL
);

CREATE INDEX mcp_event_stream ON mcp_event(session_id, stream, id);
CREATE INDEX mcp_event_created ON mcp_event(created_at);

CREATE TABLE mcp_mail (
    session_id TEXT NOT NULL REFERENCES mcp_session(id) ON DELETE CASCADE,
    about TEXT NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (session_id, about)
);

CREATE TABLE mcp_subscription (
    session_id TEXT NOT NULL REFERENCES mcp_session(id) ON DELETE CASCADE,
    uri TEXT NOT NULL,
    PRIMARY KEY (session_id, uri)
);

CREATE TABLE mcp_spent_state (
    nonce TEXT PRIMARY KEY,
    expires_at INTEGER NOT NULL
);

CREATE INDEX mcp_spent_state_expires ON mcp_spent_state(expires_at);

CREATE TABLE mcp_client (
    organization_id TEXT NOT NULL REFERENCES organization(id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    protocol_version TEXT NOT NULL,
    title TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    first_seen_at INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    PRIMARY KEY (organization_id, name, version, protocol_version)
);
