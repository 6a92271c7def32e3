-- A workspace's place in the index. On SQLite processes that keep words and vectors in memory follow `sequence` and
-- `removed`. On PostgreSQL every writer of a workspace would wait for this row, so there it only names the number, which
-- prefixes every indexed word, so that no query reads another's postings.
CREATE TABLE search_shelf (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id TEXT NOT NULL UNIQUE REFERENCES workspace(id) ON DELETE CASCADE,
    sequence INTEGER NOT NULL DEFAULT 0,
    removed INTEGER NOT NULL DEFAULT 0
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

-- only: postgresql
CREATE INDEX search_entry_neighbour ON search_entry (shelf, source, position);

CREATE INDEX search_entry_embedder ON search_entry (embedder, number);

-- What is shown.
CREATE TABLE search_text (
    number INTEGER PRIMARY KEY REFERENCES search_entry(number) ON DELETE CASCADE,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    meta TEXT NOT NULL
);

-- The people and agents of a workspace: a query that names one prefers their words.
CREATE TABLE search_author (
    shelf INTEGER NOT NULL REFERENCES search_shelf(number) ON DELETE CASCADE,
    author TEXT NOT NULL,
    PRIMARY KEY (shelf, author)
);

-- What is searched, read into memory as it is: four bytes for each word of the entry, and its vector in half precision.
-- only: sqlite
CREATE TABLE search_kept (
    number INTEGER PRIMARY KEY REFERENCES search_entry(number) ON DELETE CASCADE,
    codes BLOB NOT NULL,
    vector BLOB
);

-- A trigger tells of rows that are gone whatever deletes them.
-- only: sqlite
CREATE TRIGGER search_entry_removed AFTER DELETE ON search_entry BEGIN UPDATE search_shelf SET removed = removed + 1, sequence = sequence + 1 WHERE number = old.shelf; END;

-- only: postgresql
CREATE EXTENSION IF NOT EXISTS vector;

-- only: postgresql
CREATE SEQUENCE search_change;

-- only: postgresql
ALTER TABLE search_entry ADD COLUMN vector halfvec, ADD COLUMN lexemes tsvector NOT NULL DEFAULT ''::tsvector;

-- Four bytes for each word, to count by.
-- only: postgresql
ALTER TABLE search_text ADD COLUMN codes BYTEA NOT NULL;

-- only: postgresql
ALTER TABLE search_entry ALTER COLUMN vector SET STORAGE MAIN;

-- only: postgresql
CREATE INDEX search_entry_lexemes ON search_entry USING gin (lexemes);
