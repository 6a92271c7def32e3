-- Workspaces take turns at getting vectors: from one that waits to the next along this index, and within each newest first.
CREATE INDEX search_entry_turn ON search_entry (embedder, shelf, number);

DROP INDEX search_entry_embedder;
