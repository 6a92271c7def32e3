-- Work items: a queue that people and agents share. `open_blockers` is counted anew in every transaction that ties cases
-- or ends one, so that many that wait need not be looked at to find one that is ready.
CREATE TABLE work_case (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    is_active INTEGER NOT NULL,
    open_blockers INTEGER NOT NULL DEFAULT 0,
    blocked_from TEXT,
    reason TEXT NOT NULL,
    priority INTEGER NOT NULL,
    criteria TEXT NOT NULL,
    labels TEXT NOT NULL,
    assignee TEXT,
    due_at INTEGER,
    repository TEXT,
    base_commit TEXT,
    head_commit TEXT,
    environment TEXT,
    parent TEXT,
    source TEXT,
    holder TEXT,
    holder_name TEXT,
    session_id TEXT,
    lease_until INTEGER,
    fence INTEGER NOT NULL,
    version INTEGER NOT NULL,
    author TEXT NOT NULL,
    author_name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);

CREATE INDEX work_case_queue ON work_case (workspace_id, is_active, open_blockers, priority, created_at, id);

CREATE INDEX work_case_newest ON work_case (workspace_id, created_at, id);

CREATE INDEX work_case_state ON work_case (workspace_id, state, created_at, id);

CREATE INDEX work_case_parent ON work_case (parent);

CREATE UNIQUE INDEX work_case_source ON work_case (workspace_id, source);

CREATE TABLE case_link (
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    from_id TEXT NOT NULL REFERENCES work_case(id) ON DELETE CASCADE,
    type TEXT NOT NULL,
    to_id TEXT NOT NULL REFERENCES work_case(id) ON DELETE CASCADE,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (from_id, type, to_id)
);

CREATE INDEX case_link_to ON case_link (to_id, type);

CREATE TABLE case_history (
    id TEXT PRIMARY KEY,
    case_id TEXT NOT NULL REFERENCES work_case(id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    actor_name TEXT NOT NULL,
    action TEXT NOT NULL,
    from_state TEXT,
    to_state TEXT,
    reason TEXT NOT NULL,
    detail TEXT NOT NULL
);

CREATE INDEX case_history_case ON case_history (case_id, version, id);

CREATE TABLE case_comment (
    id TEXT PRIMARY KEY,
    case_id TEXT NOT NULL REFERENCES work_case(id) ON DELETE CASCADE,
    at INTEGER NOT NULL,
    author TEXT NOT NULL,
    author_name TEXT NOT NULL,
    text TEXT NOT NULL,
    mentions TEXT NOT NULL
);

CREATE INDEX case_comment_case ON case_comment (case_id, id);
