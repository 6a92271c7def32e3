-- What was used, summed by day; `week` is the Monday 00:00 UTC that the day belongs to.
CREATE TABLE usage_counter (
    organization_id TEXT NOT NULL,
    week INTEGER NOT NULL,
    day INTEGER NOT NULL,
    actor TEXT NOT NULL,
    project_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    source TEXT NOT NULL,
    model TEXT NOT NULL,
    kind TEXT NOT NULL,
    amount REAL NOT NULL,
    PRIMARY KEY (organization_id, week, day, actor, project_id, workspace_id, source, model, kind)
);

-- One row per call that used a model.
CREATE TABLE usage_log (
    id TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    project_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    source TEXT NOT NULL,
    operation TEXT NOT NULL,
    model TEXT NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    cost REAL NOT NULL
);

CREATE INDEX usage_log_by_organization ON usage_log (organization_id, id);

-- Token buckets of the limiter. A bucket that is full again need not be kept.
CREATE TABLE limit_bucket (
    key TEXT PRIMARY KEY,
    tokens REAL NOT NULL,
    refilled_at INTEGER NOT NULL,
    full_at INTEGER NOT NULL
);
