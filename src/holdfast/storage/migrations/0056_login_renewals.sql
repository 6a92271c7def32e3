-- Which process renews a person's login at a remote server now: a token that is replaced by its use is used once.

CREATE TABLE mcp_login_renewal (
    server_id TEXT NOT NULL REFERENCES mcp_server(id) ON DELETE CASCADE,
    user_id TEXT NOT NULL,
    holder TEXT NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (server_id, user_id)
);
