-- A workspace's place in the index. Its number prefixes every indexed word, so that no query reads another's postings.
-- SQLite counts here as it goes, and processes that keep vectors in memory follow `sequence` and `removed`.
-- On PostgreSQL every writer of a workspace would wait for this row, so there it only names the number.
CREATE TABLE search_shelf (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id TEXT NOT NULL UNIQUE REFERENCES workspace(id) ON DELETE CASCADE,
    sequence INTEGER NOT NULL DEFAULT 0,
    removed INTEGER NOT NULL DEFAULT 0,
    entries INTEGER NOT NULL DEFAULT 0,
    length INTEGER NOT NULL DEFAULT 0
);

-- The models that made vectors; a vector is compared only with those of its own model.
CREATE TABLE search_embedder (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    dimensions INTEGER NOT NULL
);

-- What is filtered by: kept narrow, so that checking thousands of matches stays in the cache.
CREATE TABLE search_entry (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    shelf INTEGER NOT NULL REFERENCES search_shelf(number) ON DELETE CASCADE,
    type TEXT NOT NULL,
    id TEXT NOT NULL,
    part INTEGER NOT NULL,
    change INTEGER NOT NULL,
    embedder INTEGER NOT NULL DEFAULT 0,
    length INTEGER NOT NULL,
    learned_at INTEGER NOT NULL,
    occurred_at INTEGER,
    valid_until INTEGER,
    author TEXT NOT NULL,
    source TEXT NOT NULL,
    position INTEGER NOT NULL,
    UNIQUE (shelf, type, id, part)
);

CREATE INDEX search_entry_change ON search_entry (shelf, change);

CREATE INDEX search_entry_neighbour ON search_entry (shelf, source, position);

CREATE INDEX search_entry_embedder ON search_entry (embedder, number);

-- What is shown and scored. Two spaces stand before each word of `words`; `codes` has four bytes for each, to count by.
CREATE TABLE search_text (
    number INTEGER PRIMARY KEY REFERENCES search_entry(number) ON DELETE CASCADE,
    shelf INTEGER NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    words TEXT NOT NULL,
    codes BLOB NOT NULL,
    meta TEXT NOT NULL
);

-- The people and agents of a workspace: a query that names one prefers their words.
CREATE TABLE search_author (
    shelf INTEGER NOT NULL REFERENCES search_shelf(number) ON DELETE CASCADE,
    author TEXT NOT NULL,
    PRIMARY KEY (shelf, author)
);

-- only: sqlite
CREATE TABLE search_vector (
    shelf INTEGER NOT NULL,
    number INTEGER NOT NULL REFERENCES search_entry(number) ON DELETE CASCADE,
    embedder INTEGER NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (shelf, number)
) WITHOUT ROWID;

-- only: sqlite
CREATE INDEX search_vector_number ON search_vector (number);

-- only: sqlite
CREATE VIEW search_prefixed AS SELECT number, replace(words, '  ', ' ' || shelf || '~') AS words FROM search_text;

-- only: sqlite
CREATE VIRTUAL TABLE search_word USING fts5(words, content='search_prefixed', content_rowid='number', tokenize="ascii tokenchars '~_./-:+#@'");

-- only: sqlite
CREATE VIRTUAL TABLE search_vocabulary USING fts5vocab(search_word, row);

-- only: sqlite
CREATE TRIGGER search_entry_added AFTER INSERT ON search_entry BEGIN UPDATE search_shelf SET entries = entries + 1, length = length + new.length WHERE number = new.shelf; END;

-- only: sqlite
CREATE TRIGGER search_entry_changed AFTER UPDATE OF length ON search_entry BEGIN UPDATE search_shelf SET length = length + new.length - old.length WHERE number = new.shelf; END;

-- only: sqlite
CREATE TRIGGER search_entry_removed AFTER DELETE ON search_entry BEGIN UPDATE search_shelf SET entries = entries - 1, length = length - old.length, removed = removed + 1, sequence = sequence + 1 WHERE number = old.shelf; END;

-- Triggers keep the postings with the rows whatever deletes them, a workspace's end included.
-- only: sqlite
CREATE TRIGGER search_text_added AFTER INSERT ON search_text BEGIN INSERT INTO search_word (rowid, words) VALUES (new.number, replace(new.words, '  ', ' ' || new.shelf || '~')); END;

-- only: sqlite
CREATE TRIGGER search_text_removed AFTER DELETE ON search_text BEGIN INSERT INTO search_word (search_word, rowid, words) VALUES ('delete', old.number, replace(old.words, '  ', ' ' || old.shelf || '~')); END;

-- only: sqlite
CREATE TRIGGER search_text_changed AFTER UPDATE OF words ON search_text WHEN old.words <> new.words BEGIN INSERT INTO search_word (search_word, rowid, words) VALUES ('delete', old.number, replace(old.words, '  ', ' ' || old.shelf || '~')); INSERT INTO search_word (rowid, words) VALUES (new.number, replace(new.words, '  ', ' ' || new.shelf || '~')); END;

-- only: postgresql
CREATE EXTENSION IF NOT EXISTS vector;

-- only: postgresql
CREATE SEQUENCE search_change;

-- only: postgresql
ALTER TABLE search_entry ADD COLUMN vector halfvec, ADD COLUMN lexemes tsvector NOT NULL DEFAULT ''::tsvector;

-- only: postgresql
ALTER TABLE search_entry ALTER COLUMN vector SET STORAGE MAIN;

-- only: postgresql
CREATE INDEX search_entry_lexemes ON search_entry USING gin (lexemes);
