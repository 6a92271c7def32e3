-- The prepared environment of a repository's proofs, for cases that name none.
CREATE TABLE repository_environment (
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    repository TEXT NOT NULL,
    environment TEXT NOT NULL,
    PRIMARY KEY (workspace_id, repository)
);
