-- Responses: what the Responses API keeps, so that a later request can go on from it or fetch it.

-- `request` is the client's body, `input` the items it brought, `response` the object as it was last answered.
-- `principal` is on whose behalf a background job answers.
CREATE TABLE response (
    id TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace(id) ON DELETE CASCADE,
    project_id TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    previous_id TEXT,
    status TEXT NOT NULL,
    request TEXT NOT NULL,
    input TEXT NOT NULL,
    response TEXT NOT NULL,
    principal TEXT NOT NULL,
    job_id TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);

CREATE INDEX response_age ON response(workspace_id, created_at);
