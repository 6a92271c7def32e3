-- Named values that are written and never read back; what is kept of them is AES-256-GCM under the master key.

CREATE TABLE secret (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    key_id TEXT,
    nonce BLOB,
    ciphertext BLOB,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    UNIQUE (workspace_id, name)
);
