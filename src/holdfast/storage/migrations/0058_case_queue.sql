-- Whoever takes the next case passes over those that are held by the index alone, without reading each of them.
DROP INDEX work_case_queue;

CREATE INDEX work_case_queue ON work_case (workspace_id, is_active, open_blockers, priority, created_at, id, lease_until);
