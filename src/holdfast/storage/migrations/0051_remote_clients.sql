-- Who lets people into a remote MCP server and as whom we are registered there; when a login ends, or ended.

ALTER TABLE mcp_login ADD COLUMN expires_at INTEGER;
ALTER TABLE mcp_login ADD COLUMN renewable INTEGER NOT NULL DEFAULT 1;
ALTER TABLE mcp_login ADD COLUMN ended_at INTEGER;

CREATE TABLE mcp_oauth (
    server_id TEXT PRIMARY KEY REFERENCES mcp_server(id) ON DELETE CASCADE,
    url TEXT NOT NULL,
    issuer TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    key_id TEXT NOT NULL,
    nonce BLOB NOT NULL,
    ciphertext BLOB NOT NULL,
    updated_at INTEGER NOT NULL
);
