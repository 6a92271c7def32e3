-- Memories: what anybody learned, with who said it, when it was true and when we learned it.
CREATE TABLE memory (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    slug TEXT NOT NULL,
    title TEXT NOT NULL,
    content TEXT NOT NULL,
    digest TEXT NOT NULL,
    category TEXT NOT NULL,
    tags TEXT NOT NULL,
    status TEXT NOT NULL,
    occurred_at INTEGER,
    learned_at INTEGER NOT NULL,
    valid_until INTEGER,
    superseded_by TEXT,
    status_note TEXT NOT NULL DEFAULT '',
    author TEXT NOT NULL,
    author_name TEXT NOT NULL,
    trust TEXT NOT NULL,
    session_id TEXT,
    chat_id TEXT,
    source TEXT NOT NULL,
    position INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX memory_slug ON memory (workspace_id, slug);
-- One current memory per text, whatever races: fifty saves of the same sentence store one.
CREATE UNIQUE INDEX memory_current_digest ON memory (workspace_id, digest) WHERE status = 'current';
CREATE INDEX memory_learned ON memory (workspace_id, learned_at, id);
CREATE INDEX memory_session ON memory (workspace_id, session_id);
CREATE INDEX memory_superseded_by ON memory (superseded_by);

-- What a memory said before each edit.
CREATE TABLE memory_revision (
    memory_id TEXT NOT NULL REFERENCES memory(id) ON DELETE CASCADE,
    revision INTEGER NOT NULL,
    title TEXT NOT NULL,
    content TEXT NOT NULL,
    category TEXT NOT NULL,
    tags TEXT NOT NULL,
    occurred_at INTEGER,
    written_at INTEGER NOT NULL,
    editor TEXT NOT NULL,
    PRIMARY KEY (memory_id, revision)
);

-- Where imported things come from: `origin` is the id they had elsewhere, a name, or the hash of what they said.
-- A second import finds them again, and an export writes the id that the first export had.
CREATE TABLE imported (
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    type TEXT NOT NULL,
    origin TEXT NOT NULL,
    id TEXT NOT NULL,
    PRIMARY KEY (workspace_id, type, origin)
);
CREATE INDEX imported_id ON imported (workspace_id, id);
