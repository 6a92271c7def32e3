-- Deep Think: how far each unfinished research is. A row goes when its report is written, or when nobody came back.

-- `question` is a digest of what was asked and where, so that the same question in another chat is another research.
CREATE TABLE deep_think_run (
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    actor TEXT NOT NULL,
    question TEXT NOT NULL,
    chat_id TEXT,
    state TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, actor, question),
    FOREIGN KEY (workspace_id, chat_id) REFERENCES chat(workspace_id, id) ON DELETE CASCADE
);

CREATE INDEX deep_think_run_old ON deep_think_run(updated_at);
CREATE INDEX deep_think_run_chat ON deep_think_run(workspace_id, chat_id);
