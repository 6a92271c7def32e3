-- Whose turn it is: of the workspaces that wait, the one that was served longest ago goes first.
CREATE TABLE job_turn (
    kind TEXT NOT NULL,
    workspace TEXT NOT NULL,
    served_at INTEGER NOT NULL,
    PRIMARY KEY (kind, workspace)
);

-- Gives the next waiting workspace, and its next job, in one step each, however many jobs wait.
CREATE INDEX job_queued ON job (kind, COALESCE(workspace_id, ''), run_at, id) WHERE state = 'queued';
