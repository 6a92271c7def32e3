-- Agents as their authors define them: each version kept whole, with the servers attached in it; who let one have a secret.

CREATE TABLE agent (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    slug TEXT NOT NULL,
    version INTEGER NOT NULL,
    definition TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    UNIQUE (workspace_id, slug)
);

CREATE TABLE agent_version (
    agent_id TEXT NOT NULL REFERENCES agent(id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    definition TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (agent_id, version)
);

-- An agent's own environment holds a secret's value only where an admin said so.
CREATE TABLE agent_secret (
    agent_id TEXT NOT NULL REFERENCES agent(id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    granted_at INTEGER NOT NULL,
    granted_by TEXT NOT NULL,
    PRIMARY KEY (agent_id, name)
);
