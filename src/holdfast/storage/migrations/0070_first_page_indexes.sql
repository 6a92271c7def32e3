-- The first page finds what failed and what is open without looking at everything that ever was.

CREATE INDEX invocation_status ON invocation (workspace_id, status, id);

CREATE INDEX agent_session_state ON agent_session (workspace_id, state, id);

CREATE INDEX decision_status ON decision (workspace_id, status, blocking, decided_at, id);
