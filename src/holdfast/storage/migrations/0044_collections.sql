-- What agents keep of their own in a workspace's knowledge: records of a graph and vectors, in named collections.
CREATE TABLE knowledge_collection (
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    -- Of its vectors: empty until there is one, 0 where it holds texts, which the search engine embeds.
    dimensions INTEGER,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (workspace_id, name)
);

CREATE TABLE graph_record (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    collection TEXT NOT NULL,
    type TEXT NOT NULL,
    title TEXT NOT NULL,
    data TEXT NOT NULL,
    -- As they are compared: without case and surplus space.
    name TEXT NOT NULL,
    email TEXT NOT NULL,
    confidence REAL,
    source TEXT NOT NULL,
    session_id TEXT,
    author TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE INDEX graph_record_type ON graph_record (workspace_id, type, id);
CREATE INDEX graph_record_name ON graph_record (workspace_id, name);
CREATE INDEX graph_record_email ON graph_record (workspace_id, email);
CREATE INDEX graph_record_updated ON graph_record (workspace_id, updated_at);

-- What an agent says of a relation beyond what every relation has.
CREATE TABLE graph_edge (
    relation_id TEXT PRIMARY KEY REFERENCES relation(id) ON DELETE CASCADE,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    collection TEXT NOT NULL,
    properties TEXT NOT NULL
);
CREATE INDEX graph_edge_collection ON graph_edge (workspace_id, collection);

-- Vectors that callers computed themselves, as unit vectors in half precision.
CREATE TABLE collection_vector (
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    collection TEXT NOT NULL,
    id TEXT NOT NULL,
    vector BLOB NOT NULL,
    metadata TEXT NOT NULL,
    author TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, collection, id)
);
