-- Artifacts: what agents and people produced, with every version kept.

CREATE TABLE artifact (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    chat_id TEXT,
    identifier TEXT NOT NULL,
    title TEXT NOT NULL,
    type TEXT NOT NULL,
    language TEXT,
    version INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);

-- NULL differs from NULL in a unique index, so each scope needs one of its own.
CREATE UNIQUE INDEX artifact_in_workspace ON artifact(workspace_id, identifier) WHERE chat_id IS NULL;

CREATE UNIQUE INDEX artifact_in_chat ON artifact(workspace_id, chat_id, identifier) WHERE chat_id IS NOT NULL;

CREATE INDEX artifact_recent ON artifact(workspace_id, updated_at, id);

CREATE TABLE artifact_version (
    artifact_id TEXT NOT NULL REFERENCES artifact(id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    title TEXT NOT NULL,
    content TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    author TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (artifact_id, version)
);
