-- Messages of chats are found by their words in an index, and no longer by reading all of them.

-- A row for each message that somebody or a model said, and one for each chat's title (its message is ''). `place` grows with
-- time, so that the newest are found first; `words` begin with the workspace, so that no query reads another's.
CREATE TABLE chat_words (
    place INTEGER PRIMARY KEY,
    workspace_id TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    words TEXT NOT NULL,
    UNIQUE (workspace_id, chat_id, message_id),
    FOREIGN KEY (workspace_id, chat_id) REFERENCES chat(workspace_id, id) ON DELETE CASCADE
);

-- The words come ready; all that is left to do is to take them apart at spaces. Before each stand eleven letters for its workspace
-- and place, so the beginnings that are kept are those of one, two and three letters.
-- only: sqlite
CREATE VIRTUAL TABLE chat_words_index USING fts5(words, content='chat_words', content_rowid='place', detail='none', columnsize=0, prefix='12 13 14', tokenize='ascii');

-- only: sqlite
CREATE TRIGGER chat_words_added AFTER INSERT ON chat_words BEGIN INSERT INTO chat_words_index (rowid, words) VALUES (new.place, new.words); END;

-- only: sqlite
CREATE TRIGGER chat_words_removed AFTER DELETE ON chat_words BEGIN INSERT INTO chat_words_index (chat_words_index, rowid, words) VALUES ('delete', old.place, old.words); END;

-- only: sqlite
CREATE TRIGGER chat_words_changed AFTER UPDATE OF words ON chat_words BEGIN INSERT INTO chat_words_index (chat_words_index, rowid, words) VALUES ('delete', old.place, old.words); INSERT INTO chat_words_index (rowid, words) VALUES (new.place, new.words); END;

-- only: postgresql
ALTER TABLE chat_words ADD COLUMN lexemes tsvector GENERATED ALWAYS AS (array_to_tsvector(string_to_array(words, ' '))) STORED;

-- Words go into the index at once: what waits to be put there would be read whole by every query.
-- only: postgresql
CREATE INDEX chat_words_index ON chat_words USING gin (lexemes) WITH (fastupdate = off);

-- only: postgresql
CREATE INDEX chat_words_newest ON chat_words (workspace_id, place);

-- What was said before this version: taken into the index in the background after the start.
CREATE TABLE chat_words_missing (
    workspace_id TEXT NOT NULL,
    chat_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    PRIMARY KEY (workspace_id, chat_id, message_id),
    FOREIGN KEY (workspace_id, chat_id) REFERENCES chat(workspace_id, id) ON DELETE CASCADE
);

INSERT INTO chat_words_missing (workspace_id, chat_id, message_id) SELECT workspace_id, id, '' FROM chat;

INSERT INTO chat_words_missing (workspace_id, chat_id, message_id)
SELECT workspace_id, chat_id, id FROM chat_message WHERE role IN ('user', 'assistant');

ALTER TABLE chat_message DROP COLUMN words;
