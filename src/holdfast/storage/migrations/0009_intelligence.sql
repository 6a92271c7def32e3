-- What a team decided and reached, and how anything it knows relates to anything else.
CREATE TABLE decision (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    title TEXT NOT NULL,
    rationale TEXT NOT NULL,
    alternatives TEXT NOT NULL,
    status TEXT NOT NULL,
    blocking INTEGER NOT NULL,
    decided_at INTEGER NOT NULL,
    supersedes TEXT,
    superseded_by TEXT,
    superseded_at INTEGER,
    author TEXT NOT NULL,
    author_name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);

CREATE INDEX decision_by_moment ON decision (workspace_id, decided_at, id);

CREATE TABLE milestone (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    title TEXT NOT NULL,
    type TEXT NOT NULL,
    description TEXT NOT NULL,
    occurred_at INTEGER NOT NULL,
    author TEXT NOT NULL,
    author_name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);

CREATE INDEX milestone_by_moment ON milestone (workspace_id, occurred_at, id);

-- `fact` spells a relation the same way from either end, so that its inverse cannot be added beside it.
CREATE TABLE relation (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    from_type TEXT NOT NULL,
    from_id TEXT NOT NULL,
    to_type TEXT NOT NULL,
    to_id TEXT NOT NULL,
    relation TEXT NOT NULL,
    note TEXT NOT NULL,
    fact TEXT NOT NULL,
    author TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (workspace_id, fact)
);

CREATE INDEX relation_by_from ON relation (workspace_id, from_id);

CREATE INDEX relation_by_to ON relation (workspace_id, to_id);
