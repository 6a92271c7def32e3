-- What tools of the server gave in a turn that goes on with a tool of the client's own: the client does not have it,
-- and the request that brings its result needs it. `digest` stands for who asked, what was said and the client's calls.
CREATE TABLE continuation (
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    digest TEXT NOT NULL,
    chat_id TEXT,
    messages TEXT NOT NULL,
    size INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, digest),
    FOREIGN KEY (workspace_id, chat_id) REFERENCES chat(workspace_id, id) ON DELETE CASCADE
);

CREATE INDEX continuation_age ON continuation(workspace_id, created_at, size);
