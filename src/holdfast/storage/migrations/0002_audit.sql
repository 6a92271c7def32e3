-- What happened, in order, for each organization. Rows outlive what they are about: no foreign keys.
CREATE TABLE audit_event (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    organization_id TEXT NOT NULL,
    project_id TEXT,
    workspace_id TEXT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    actor_name TEXT NOT NULL,
    proof TEXT NOT NULL,
    action TEXT NOT NULL,
    resource TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    outcome TEXT NOT NULL,
    times INTEGER NOT NULL,
    detail TEXT NOT NULL,
    sequence INTEGER,
    previous_hash TEXT,
    hash TEXT
);

CREATE INDEX audit_event_by_organization ON audit_event (organization_id, number);

CREATE INDEX audit_event_by_actor ON audit_event (organization_id, actor, number);

CREATE INDEX audit_event_by_workspace ON audit_event (workspace_id, number);

CREATE INDEX audit_event_unsealed ON audit_event (number) WHERE hash IS NULL;

CREATE UNIQUE INDEX audit_event_sealed ON audit_event (organization_id, sequence) WHERE sequence IS NOT NULL;

-- The newest seal of each chain, so that a chain cut short is noticed.
CREATE TABLE audit_head (
    organization_id TEXT PRIMARY KEY,
    sequence INTEGER NOT NULL,
    hash TEXT NOT NULL,
    sealed_at INTEGER NOT NULL
);

-- only: sqlite
CREATE TRIGGER audit_event_keeps_content BEFORE UPDATE OF number, id, organization_id, project_id, workspace_id, at,
    actor, actor_name, proof, action, resource, resource_id, outcome, times, detail ON audit_event
BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END;

-- only: sqlite
CREATE TRIGGER audit_event_keeps_seal BEFORE UPDATE ON audit_event WHEN OLD.hash IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END;

-- only: sqlite
CREATE TRIGGER audit_event_stays BEFORE DELETE ON audit_event
BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END;

-- only: postgresql
CREATE FUNCTION audit_event_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.hash IS NULL AND ROW(OLD.number, OLD.id, OLD.organization_id, OLD.project_id,
        OLD.workspace_id, OLD.at, OLD.actor, OLD.actor_name, OLD.proof, OLD.action, OLD.resource, OLD.resource_id,
        OLD.outcome, OLD.times, OLD.detail) IS NOT DISTINCT FROM ROW(NEW.number, NEW.id, NEW.organization_id,
        NEW.project_id, NEW.workspace_id, NEW.at, NEW.actor, NEW.actor_name, NEW.proof, NEW.action, NEW.resource,
        NEW.resource_id, NEW.outcome, NEW.times, NEW.detail) THEN RETURN NEW; END IF;  -- sealing only
    RAISE EXCEPTION 'audit events are append-only'; END $$;

-- only: postgresql
CREATE TRIGGER audit_event_keeps BEFORE UPDATE OR DELETE ON audit_event
    FOR EACH ROW EXECUTE FUNCTION audit_event_append_only();

-- only: postgresql
CREATE TRIGGER audit_event_stays BEFORE TRUNCATE ON audit_event
    FOR EACH STATEMENT EXECUTE FUNCTION audit_event_append_only();
