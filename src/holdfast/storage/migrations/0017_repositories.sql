-- Repositories that are remembered. The slug names one in the whole organization.
CREATE TABLE repository (
    id TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    slug TEXT NOT NULL,
    name TEXT NOT NULL,
    location TEXT NOT NULL,
    is_local INTEGER NOT NULL,
    host TEXT NOT NULL,
    full_name TEXT NOT NULL,
    key_from TEXT,
    webhook_secret TEXT,
    branch TEXT NOT NULL,
    head TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL,
    reason TEXT,
    job_id TEXT,
    ingested INTEGER NOT NULL DEFAULT 0,
    last_synced_at INTEGER,
    synthesis_status TEXT NOT NULL DEFAULT 'pending',
    synthesis_progress INTEGER NOT NULL DEFAULT 0,
    synthesised_at INTEGER,
    synthesised_head TEXT NOT NULL DEFAULT '',
    keystone_files INTEGER NOT NULL DEFAULT 0,
    commits INTEGER NOT NULL DEFAULT 0,
    files INTEGER NOT NULL DEFAULT 0,
    items INTEGER NOT NULL DEFAULT 0,
    entries INTEGER NOT NULL DEFAULT 0,
    created_by TEXT NOT NULL,
    created_by_name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (organization_id, slug)
);

CREATE INDEX repository_by_workspace ON repository (workspace_id, slug);

-- Every attempt to bring one up to date.
CREATE TABLE repository_sync (
    id TEXT PRIMARY KEY,
    repository_id TEXT NOT NULL REFERENCES repository(id) ON DELETE CASCADE,
    job_id TEXT NOT NULL,
    cause TEXT NOT NULL,
    status TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    finished_at INTEGER,
    commits_added INTEGER NOT NULL DEFAULT 0,
    commits_removed INTEGER NOT NULL DEFAULT 0,
    files_changed INTEGER NOT NULL DEFAULT 0,
    files_removed INTEGER NOT NULL DEFAULT 0,
    items_changed INTEGER NOT NULL DEFAULT 0,
    error TEXT
);

CREATE INDEX repository_sync_by_moment ON repository_sync (repository_id, started_at, id);

-- `changes` is a JSON list of [status, path, old path, insertions, deletions].
CREATE TABLE repository_commit (
    repository_id TEXT NOT NULL REFERENCES repository(id) ON DELETE CASCADE,
    sha TEXT NOT NULL,
    parents TEXT NOT NULL,
    author TEXT NOT NULL,
    email TEXT NOT NULL,
    authored_at INTEGER NOT NULL,
    committed_at INTEGER NOT NULL,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    changes TEXT NOT NULL,
    more_changes INTEGER NOT NULL,
    PRIMARY KEY (repository_id, sha)
);

CREATE INDEX repository_commit_by_moment ON repository_commit (repository_id, committed_at, sha);

-- Files at the head.
CREATE TABLE repository_file (
    repository_id TEXT NOT NULL REFERENCES repository(id) ON DELETE CASCADE,
    path TEXT NOT NULL,
    name TEXT NOT NULL,
    blob TEXT NOT NULL,
    kind TEXT NOT NULL,
    language TEXT NOT NULL,
    size INTEGER NOT NULL,
    lines INTEGER NOT NULL,
    passages INTEGER NOT NULL,
    PRIMARY KEY (repository_id, path)
);

-- `name` is the last part of the path in lower case.
CREATE INDEX repository_file_by_name ON repository_file (repository_id, name);

-- What the files define; `folded` is the name in lower case.
CREATE TABLE repository_symbol (
    repository_id TEXT NOT NULL,
    path TEXT NOT NULL,
    number INTEGER NOT NULL,
    folded TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    container TEXT NOT NULL,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    PRIMARY KEY (repository_id, path, number),
    FOREIGN KEY (repository_id, path) REFERENCES repository_file(repository_id, path) ON DELETE CASCADE
);

CREATE INDEX repository_symbol_by_name ON repository_symbol (repository_id, folded);

CREATE TABLE repository_tag (
    repository_id TEXT NOT NULL REFERENCES repository(id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    sha TEXT NOT NULL,
    tagged_at INTEGER NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (repository_id, name)
);

-- Pull requests, issues, releases and discussions; labels, remarks and files are JSON lists.
CREATE TABLE repository_item (
    repository_id TEXT NOT NULL REFERENCES repository(id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    number TEXT NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL,
    author TEXT NOT NULL,
    url TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    closed_at INTEGER,
    merged_at INTEGER,
    commit_sha TEXT NOT NULL,
    labels TEXT NOT NULL,
    remarks TEXT NOT NULL,
    files TEXT NOT NULL,
    PRIMARY KEY (repository_id, kind, number)
);

-- Up to which moment the host's items of a kind are known.
CREATE TABLE repository_cursor (
    repository_id TEXT NOT NULL REFERENCES repository(id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (repository_id, kind)
);

-- Webhook deliveries that had their effect.
CREATE TABLE repository_delivery (
    repository_id TEXT NOT NULL REFERENCES repository(id) ON DELETE CASCADE,
    delivery_id TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    PRIMARY KEY (repository_id, delivery_id)
);
