-- Background work: a job is held by a lease and fenced by its owner and the number of the claim.
CREATE TABLE job (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    workspace_id TEXT REFERENCES workspace (id) ON DELETE CASCADE,
    key TEXT,
    payload TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL,
    claims INTEGER NOT NULL DEFAULT 0,
    run_at INTEGER NOT NULL,
    lease_owner TEXT,
    lease_until INTEGER,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    done REAL NOT NULL DEFAULT 0,
    total REAL,
    message TEXT NOT NULL DEFAULT '',
    result TEXT,
    error TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    finished_at INTEGER
);

CREATE INDEX job_due ON job (kind, state, run_at) WHERE state IN ('queued', 'running');

CREATE INDEX job_by_key ON job (kind, key) WHERE key IS NOT NULL AND state IN ('queued', 'running');

-- Asking for the same keyed work again before it started changes nothing.
CREATE UNIQUE INDEX job_waiting ON job (kind, COALESCE(workspace_id, ''), key)
    WHERE key IS NOT NULL AND state = 'queued' AND attempts = 0;

CREATE INDEX job_by_workspace ON job (workspace_id, id);

CREATE INDEX job_finished ON job (finished_at) WHERE finished_at IS NOT NULL;

-- What a job has finished: a step found here is not run again.
CREATE TABLE job_step (
    job_id TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    result TEXT NOT NULL,
    finished_at INTEGER NOT NULL,
    PRIMARY KEY (job_id, name)
);

-- What the event bus tells other processes; trimmed after minutes.
CREATE TABLE event (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    origin TEXT NOT NULL,
    topic TEXT NOT NULL,
    workspace_id TEXT,
    payload TEXT NOT NULL
);

CREATE INDEX event_by_time ON event (at);
