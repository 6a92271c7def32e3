-- Files that were put into a vector store together; `document_ids` is a list.
CREATE TABLE vector_store_batch (
    id TEXT PRIMARY KEY,
    vector_store_id TEXT NOT NULL REFERENCES vector_store(id) ON DELETE CASCADE,
    document_ids TEXT NOT NULL,
    cancelled INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
);

CREATE INDEX vector_store_batch_store ON vector_store_batch(vector_store_id);
