-- MCP servers that a workspace may run, and each tool as it was pinned. Values of secrets are never here.

CREATE TABLE mcp_server (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    spec TEXT NOT NULL,
    enabled INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    install TEXT NOT NULL DEFAULT 'none',
    installed TEXT,
    job_id TEXT,
    problem TEXT,
    server_info TEXT,
    protocol TEXT,
    probed_at INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    UNIQUE (workspace_id, name)
);

CREATE TABLE mcp_tool (
    server_id TEXT NOT NULL REFERENCES mcp_server(id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    position INTEGER NOT NULL,
    pinned TEXT NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL,
    waiting TEXT,
    is_new INTEGER NOT NULL DEFAULT 0,
    flags TEXT NOT NULL,
    policy TEXT,
    destructive INTEGER,
    idempotent INTEGER NOT NULL DEFAULT 0,
    scope TEXT,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (server_id, name)
);
