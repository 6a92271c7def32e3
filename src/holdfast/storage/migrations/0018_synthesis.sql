-- What was derived from a repository, what it was written as (`written` tells whether a person changed it since), and
-- what it was made of (`digest` tells whether it has to be written again).
CREATE TABLE repository_finding (
    repository_id TEXT NOT NULL REFERENCES repository(id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    citations TEXT NOT NULL,
    target_type TEXT NOT NULL,
    target_id TEXT NOT NULL,
    digest TEXT NOT NULL,
    written TEXT NOT NULL,
    state TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (repository_id, kind, key)
);

-- What a source file says of itself, by its content: read once for each blob.
CREATE TABLE repository_outline (
    repository_id TEXT NOT NULL REFERENCES repository(id) ON DELETE CASCADE,
    path TEXT NOT NULL,
    blob TEXT NOT NULL,
    outline TEXT NOT NULL,
    PRIMARY KEY (repository_id, path)
);

-- What the last completed synthesis was made of: the same again needs no other.
CREATE TABLE repository_synthesis (
    repository_id TEXT PRIMARY KEY REFERENCES repository(id) ON DELETE CASCADE,
    fingerprint TEXT NOT NULL,
    completed_at INTEGER NOT NULL
);
