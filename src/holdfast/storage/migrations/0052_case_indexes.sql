-- A lane of the board in its order, and what wants somebody, without looking at every case of a large workspace.
CREATE INDEX work_case_lane ON work_case (workspace_id, state, priority, created_at, id);

CREATE INDEX work_case_assignee ON work_case (workspace_id, assignee);

CREATE INDEX work_case_holder ON work_case (workspace_id, holder);

CREATE INDEX work_case_author ON work_case (workspace_id, author, state);
