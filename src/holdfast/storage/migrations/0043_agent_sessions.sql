-- Agents at work: what each session was started with, everything it told, whom it asks, and what it is told.

CREATE TABLE agent_session (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    agent_id TEXT NOT NULL,
    agent_slug TEXT NOT NULL,
    agent_version INTEGER NOT NULL,
    state TEXT NOT NULL,
    prompt TEXT NOT NULL,
    frozen TEXT NOT NULL,
    principal TEXT NOT NULL,
    started_by TEXT NOT NULL,
    user_id TEXT,
    case_id TEXT,
    case_fence INTEGER,
    parent_id TEXT,
    root_id TEXT NOT NULL,
    depth INTEGER NOT NULL,
    job_id TEXT,
    key_ids TEXT NOT NULL DEFAULT '[]',
    resume_token TEXT,
    stop_by TEXT,
    quiet_until INTEGER NOT NULL DEFAULT 0,
    waited_millis INTEGER NOT NULL DEFAULT 0,
    waiting_since INTEGER,
    last_seq INTEGER NOT NULL DEFAULT 0,
    tokens_in INTEGER NOT NULL DEFAULT 0,
    tokens_out INTEGER NOT NULL DEFAULT 0,
    cost REAL NOT NULL DEFAULT 0,
    summary TEXT,
    result TEXT,
    error TEXT,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER
);
CREATE INDEX agent_session_workspace ON agent_session (workspace_id, id);
CREATE INDEX agent_session_agent ON agent_session (agent_id, id);
CREATE INDEX agent_session_parent ON agent_session (parent_id);
CREATE INDEX agent_session_root ON agent_session (root_id);

CREATE TABLE session_event (
    session_id TEXT NOT NULL REFERENCES agent_session(id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (session_id, seq)
);

-- What a session waits for from a person, or from the session that started it. The same request asks once.
CREATE TABLE session_question (
    id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES agent_session(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    request_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    question TEXT NOT NULL,
    options TEXT NOT NULL,
    details TEXT NOT NULL,
    state TEXT NOT NULL,
    answer TEXT,
    grant_id TEXT,
    created_at INTEGER NOT NULL,
    decided_at INTEGER,
    decided_by TEXT,
    UNIQUE (session_id, kind, request_id)
);
CREATE INDEX session_question_pending ON session_question (workspace_id, id) WHERE state = 'pending';

-- What somebody says to a session; kept until its agent was told.
CREATE TABLE session_message (
    id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES agent_session(id) ON DELETE CASCADE,
    text TEXT NOT NULL,
    said_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    delivered_at INTEGER
);
CREATE INDEX session_message_waiting ON session_message (session_id, id) WHERE delivered_at IS NULL;
