-- Each person's login at each remote MCP server, sealed, and logins that have begun.

CREATE TABLE mcp_login (
    server_id TEXT NOT NULL REFERENCES mcp_server(id) ON DELETE CASCADE,
    user_id TEXT NOT NULL,
    issuer TEXT NOT NULL,
    key_id TEXT NOT NULL,
    nonce BLOB NOT NULL,
    ciphertext BLOB NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (server_id, user_id)
);

CREATE TABLE mcp_login_attempt (
    state TEXT PRIMARY KEY,
    server_id TEXT NOT NULL REFERENCES mcp_server(id) ON DELETE CASCADE,
    user_id TEXT NOT NULL,
    key_id TEXT NOT NULL,
    nonce BLOB NOT NULL,
    ciphertext BLOB NOT NULL,
    created_at INTEGER NOT NULL
);
