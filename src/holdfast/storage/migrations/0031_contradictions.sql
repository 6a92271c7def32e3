-- Memories that seem to contradict each other, kept until a person says which one holds.
CREATE TABLE memory_contradiction (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    memory_id TEXT NOT NULL REFERENCES memory(id) ON DELETE CASCADE,
    other_id TEXT NOT NULL REFERENCES memory(id) ON DELETE CASCADE,
    reason TEXT NOT NULL,
    found_at INTEGER NOT NULL,
    settled_at INTEGER,
    settled_by TEXT,
    UNIQUE (memory_id, other_id)
);
CREATE INDEX memory_contradiction_open ON memory_contradiction (workspace_id, id) WHERE settled_at IS NULL;
CREATE INDEX memory_contradiction_other ON memory_contradiction (other_id);
