-- Documents: uploaded files with their bytes, the passages read out of them, and the vector stores that group them.

-- The bytes of a file, in parts so that neither a write nor a read holds the whole. Its id is the document's id;
-- it exists before the document does, while the upload runs.
CREATE TABLE document_blob (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    complete INTEGER NOT NULL,
    touched_at INTEGER NOT NULL
);

CREATE INDEX document_blob_incomplete ON document_blob(touched_at) WHERE complete = 0;

CREATE INDEX document_blob_workspace ON document_blob(workspace_id);

CREATE TABLE document_blob_part (
    blob_id TEXT NOT NULL REFERENCES document_blob(id) ON DELETE CASCADE,
    part INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (blob_id, part)
);

CREATE TABLE document (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    filename TEXT NOT NULL,
    title TEXT NOT NULL,
    format TEXT NOT NULL,
    language TEXT,
    media_type TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    sha256 TEXT NOT NULL,
    state TEXT NOT NULL,
    reason_code TEXT,
    reason TEXT,
    chunks INTEGER NOT NULL,
    characters INTEGER NOT NULL,
    truncated INTEGER NOT NULL,
    progress_done INTEGER NOT NULL,
    progress_total INTEGER,
    job_id TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_by_name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (workspace_id, sha256)
);

CREATE INDEX document_recent ON document(workspace_id, id);

CREATE TABLE document_chat (
    document_id TEXT NOT NULL REFERENCES document(id) ON DELETE CASCADE,
    chat_id TEXT NOT NULL,
    PRIMARY KEY (document_id, chat_id)
);

CREATE INDEX document_chat_by_chat ON document_chat(chat_id);

CREATE TABLE document_chunk (
    document_id TEXT NOT NULL REFERENCES document(id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    heading TEXT NOT NULL,
    page INTEGER,
    text TEXT NOT NULL,
    PRIMARY KEY (document_id, number)
);

CREATE TABLE vector_store (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    metadata TEXT NOT NULL,
    expires_after_days INTEGER,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_active_at INTEGER NOT NULL
);

CREATE INDEX vector_store_workspace ON vector_store(workspace_id, id);

CREATE TABLE vector_store_file (
    vector_store_id TEXT NOT NULL REFERENCES vector_store(id) ON DELETE CASCADE,
    document_id TEXT NOT NULL REFERENCES document(id) ON DELETE CASCADE,
    attributes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (vector_store_id, document_id)
);

CREATE INDEX vector_store_file_document ON vector_store_file(document_id);
