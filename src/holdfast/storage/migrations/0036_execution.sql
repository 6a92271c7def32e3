-- Calls of enrolled tools as they are decided, run and ended; who approved which; who was granted what.

CREATE TABLE invocation (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    server_id TEXT NOT NULL,
    tool_name TEXT NOT NULL,
    tool_digest TEXT NOT NULL,
    arguments TEXT NOT NULL,
    arguments_digest TEXT NOT NULL,
    status TEXT NOT NULL,
    requested_by TEXT NOT NULL,
    requested_name TEXT NOT NULL,
    principal TEXT NOT NULL,
    source TEXT NOT NULL,
    session_id TEXT,
    chat_id TEXT,
    once_key TEXT NOT NULL,
    job_id TEXT,
    granted_via TEXT,
    sent_at INTEGER,
    done REAL NOT NULL DEFAULT 0,
    total REAL,
    message TEXT NOT NULL DEFAULT '',
    result TEXT,
    error TEXT,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER
);
CREATE INDEX invocation_workspace ON invocation (workspace_id, id);
CREATE INDEX invocation_tool ON invocation (workspace_id, tool_name, requested_by, id);

-- Which invocation a repeated request gets: no second one is made while the row is young.
CREATE TABLE invocation_once (
    once_key TEXT PRIMARY KEY,
    invocation_id TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX invocation_once_created ON invocation_once (created_at);

CREATE TABLE approval (
    id TEXT PRIMARY KEY,
    invocation_id TEXT NOT NULL UNIQUE REFERENCES invocation(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    token TEXT NOT NULL UNIQUE,
    digest TEXT NOT NULL,
    state TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    decided_at INTEGER,
    decided_by TEXT,
    via TEXT,
    note TEXT
);
CREATE INDEX approval_pending ON approval (workspace_id, id) WHERE state = 'pending';
CREATE INDEX approval_due ON approval (expires_at) WHERE state = 'pending';

CREATE TABLE permission_grant (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    subject_type TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    grant_type TEXT NOT NULL,
    details TEXT NOT NULL,
    scope TEXT NOT NULL,
    session_id TEXT,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_at INTEGER,
    used_at INTEGER
);
CREATE INDEX permission_grant_subject ON permission_grant (workspace_id, subject_id);

CREATE TABLE execution_setting (
    workspace_id TEXT PRIMARY KEY REFERENCES workspace(id) ON DELETE CASCADE,
    log_arguments INTEGER NOT NULL DEFAULT 0,
    sampling_approvals INTEGER NOT NULL DEFAULT 0,
    webhook_url TEXT,
    webhook_secret TEXT,
    updated_at INTEGER NOT NULL
);
