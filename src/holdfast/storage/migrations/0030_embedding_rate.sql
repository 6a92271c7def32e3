-- How fast an embedder was when it last worked, measured by whoever embedded: estimates of what still waits stand on it.
ALTER TABLE search_embedder ADD COLUMN entries_per_second REAL NOT NULL DEFAULT 0;

ALTER TABLE search_embedder ADD COLUMN measured_at INTEGER NOT NULL DEFAULT 0;
