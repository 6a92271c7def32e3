-- Chats are found by their words, and deleting one can be undone for a while.

-- What was said, in lower case. Of messages that are kept already the whole JSON stands in for it: their words are in there.
ALTER TABLE chat_message ADD COLUMN words TEXT NOT NULL DEFAULT '';

UPDATE chat_message SET words = lower(message);

-- A chat that is deleted is gone from every other table; this is all that is left of it until nobody can want it back.
CREATE TABLE deleted_chat (
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    content TEXT NOT NULL,
    deleted_at INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, id)
);

CREATE INDEX deleted_chat_age ON deleted_chat(deleted_at);
