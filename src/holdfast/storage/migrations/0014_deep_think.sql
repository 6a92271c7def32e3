-- Deep Think: how far each unfinished research is. A row goes when its report is written, or when nobody came back.

CREATE TABLE deep_think_run (
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    actor TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    question TEXT NOT NULL,
    state TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, actor, chat_id, question)
);

CREATE INDEX deep_think_run_old ON deep_think_run(updated_at);
