-- Chats: conversations over the router, kept as trees of messages, and what research found in the last minutes.

-- The id is the client's own word for the chat, so it is unique within its workspace only.
CREATE TABLE chat (
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    title TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_by_name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, id)
);

CREATE INDEX chat_recent ON chat(workspace_id, updated_at, id);

-- `trail` is a digest of the message and everything before it: a client that sends a conversation again finds the
-- messages that are kept, and one that changed something earlier starts a branch there.
CREATE TABLE chat_message (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    parent_id TEXT,
    trail TEXT NOT NULL,
    role TEXT NOT NULL,
    message TEXT NOT NULL,
    state TEXT NOT NULL,
    model TEXT NOT NULL,
    finish_reason TEXT NOT NULL,
    calls TEXT NOT NULL,
    memories TEXT NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    cost REAL NOT NULL,
    author TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (workspace_id, chat_id, trail),
    FOREIGN KEY (workspace_id, chat_id) REFERENCES chat(workspace_id, id) ON DELETE CASCADE
);

CREATE INDEX chat_message_order ON chat_message(workspace_id, chat_id, number);

-- A question that a model asked a person. `transcript` is what the model had seen: the turn goes on from there.
CREATE TABLE chat_question (
    correlation_id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    question TEXT NOT NULL,
    transcript TEXT NOT NULL,
    state TEXT NOT NULL,
    answer TEXT,
    answered_by TEXT,
    asked_at INTEGER NOT NULL,
    answered_at INTEGER,
    FOREIGN KEY (workspace_id, chat_id) REFERENCES chat(workspace_id, id) ON DELETE CASCADE
);

CREATE INDEX chat_question_open ON chat_question(workspace_id, chat_id, correlation_id);

-- What identical research calls are answered with for five minutes, whichever process made the first.
CREATE TABLE research_result (
    project_id TEXT NOT NULL REFERENCES project(id) ON DELETE CASCADE,
    digest TEXT NOT NULL,
    text TEXT NOT NULL,
    sources INTEGER NOT NULL,
    untrusted INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (project_id, digest)
);

CREATE INDEX research_result_expiry ON research_result(expires_at);
