-- Where a project's chat goes: each endpoint's upstreams, as JSON. `default` exists without a row.

CREATE TABLE endpoint (
    project_id TEXT NOT NULL REFERENCES project(id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    upstreams TEXT NOT NULL,
    disabled_tools TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (project_id, name)
);
