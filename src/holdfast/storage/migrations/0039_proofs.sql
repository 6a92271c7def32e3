-- What shows that a case is done, and each time that our runner looked.
CREATE TABLE case_proof (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    case_id TEXT NOT NULL REFERENCES work_case(id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    claim TEXT NOT NULL,
    criteria TEXT NOT NULL,
    command TEXT NOT NULL,
    expected_exit INTEGER NOT NULL,
    tests TEXT NOT NULL,
    report TEXT,
    is_reproduction INTEGER NOT NULL,
    environment TEXT,
    timeout_seconds INTEGER NOT NULL,
    commit_sha TEXT,
    outcome TEXT,
    artifact_id TEXT,
    author TEXT NOT NULL,
    author_name TEXT NOT NULL,
    created_at INTEGER NOT NULL
);

CREATE INDEX case_proof_case ON case_proof (case_id, id);

CREATE TABLE proof_run (
    id TEXT PRIMARY KEY,
    proof_id TEXT NOT NULL REFERENCES case_proof(id) ON DELETE CASCADE,
    case_id TEXT NOT NULL REFERENCES work_case(id) ON DELETE CASCADE,
    commit_sha TEXT NOT NULL,
    side TEXT NOT NULL,
    outcome TEXT NOT NULL,
    said TEXT NOT NULL,
    exit_code INTEGER,
    tests TEXT NOT NULL,
    output TEXT NOT NULL,
    output_bytes INTEGER NOT NULL,
    output_digest TEXT NOT NULL,
    seconds REAL NOT NULL,
    environment TEXT NOT NULL,
    job_id TEXT,
    requested_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    ended_at INTEGER
);

CREATE INDEX proof_run_proof ON proof_run (proof_id, id);

CREATE INDEX proof_run_case ON proof_run (case_id, id);

-- A directory of this machine that holds what proofs need; the operator registers it, runs see it read-only.
CREATE TABLE proof_environment (
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    path TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, name)
);

-- What statements are signed with; public halves stay for as long as somebody may hold a statement.
CREATE TABLE proof_key (
    id TEXT PRIMARY KEY,
    public_key TEXT NOT NULL,
    master_key_id TEXT NOT NULL,
    nonce BLOB NOT NULL,
    ciphertext BLOB NOT NULL,
    created_at INTEGER NOT NULL
);
