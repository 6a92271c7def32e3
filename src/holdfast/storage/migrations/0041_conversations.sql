-- What the words of an entry are like, where somebody said them in a conversation: bits of engines/search/text/speech.py.
-- Entries from before have none, and are ranked as they were.
ALTER TABLE search_entry ADD COLUMN traits INTEGER NOT NULL DEFAULT 0;

-- The conversation that a memory is part of: the session its caller named, or one that was inferred.
ALTER TABLE memory ADD COLUMN thread TEXT NOT NULL DEFAULT '';

-- Conversations that nobody named: what one caller saved of moments close to each other.
CREATE TABLE memory_thread (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    author TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    began_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    length INTEGER NOT NULL
);

CREATE INDEX memory_thread_moment ON memory_thread (workspace_id, author, chat_id, ended_at);
