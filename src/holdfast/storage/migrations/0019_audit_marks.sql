-- Each event bears the mark of a key that is not in the store (HMAC), from the moment it is written; so does each head.
-- Events from before have none: a checkpoint, made once at the first start, fixes the chain that they form.
ALTER TABLE audit_event ADD COLUMN key_id TEXT;

ALTER TABLE audit_event ADD COLUMN mac TEXT;

ALTER TABLE audit_head ADD COLUMN key_id TEXT;

ALTER TABLE audit_head ADD COLUMN mac TEXT;

-- The keys that events are marked with, sealed under the master key. One key may be here under two master keys while
-- replicas change from one to the other.
CREATE TABLE audit_key (
    id TEXT NOT NULL,
    master_key_id TEXT NOT NULL,
    nonce BLOB NOT NULL,
    ciphertext BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (id, master_key_id)
);

CREATE TABLE audit_checkpoint (
    organization_id TEXT NOT NULL,
    sequence INTEGER NOT NULL CHECK (sequence > 0),
    hash TEXT NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    key_id TEXT NOT NULL,
    mac TEXT NOT NULL,
    PRIMARY KEY (organization_id, sequence)
);

-- only: sqlite
DROP TRIGGER audit_event_keeps_content;

-- only: sqlite
CREATE TRIGGER audit_event_keeps_content BEFORE UPDATE OF number, id, organization_id, project_id, workspace_id, at,
    actor, actor_name, proof, action, resource, resource_id, outcome, times, detail, key_id, mac ON audit_event
BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END;

-- only: sqlite
CREATE TRIGGER audit_event_arrives BEFORE INSERT ON audit_event WHEN NEW.mac IS NULL OR NEW.key_id IS NULL
    OR NEW.sequence IS NOT NULL OR NEW.previous_hash IS NOT NULL OR NEW.hash IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'audit events arrive with a mark and without a seal'); END;

-- only: sqlite
CREATE TRIGGER audit_event_counts BEFORE UPDATE OF sequence ON audit_event WHEN NEW.sequence < 1
BEGIN SELECT RAISE(ABORT, 'the sequence of audit events begins at 1'); END;

-- only: postgresql
CREATE OR REPLACE FUNCTION audit_event_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.hash IS NULL AND NEW.sequence > 0 AND ROW(OLD.number, OLD.id, OLD.organization_id,
        OLD.project_id, OLD.workspace_id, OLD.at, OLD.actor, OLD.actor_name, OLD.proof, OLD.action, OLD.resource,
        OLD.resource_id, OLD.outcome, OLD.times, OLD.detail, OLD.key_id, OLD.mac) IS NOT DISTINCT FROM ROW(NEW.number,
        NEW.id, NEW.organization_id, NEW.project_id, NEW.workspace_id, NEW.at, NEW.actor, NEW.actor_name, NEW.proof,
        NEW.action, NEW.resource, NEW.resource_id, NEW.outcome, NEW.times, NEW.detail, NEW.key_id, NEW.mac)
        THEN RETURN NEW; END IF;  -- sealing only
    RAISE EXCEPTION 'audit events are append-only'; END $$;

-- only: postgresql
CREATE FUNCTION audit_event_marked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'audit events arrive with a mark and without a seal'; END $$;

-- only: postgresql
CREATE TRIGGER audit_event_arrives BEFORE INSERT ON audit_event FOR EACH ROW WHEN (NEW.mac IS NULL
    OR NEW.key_id IS NULL OR NEW.sequence IS NOT NULL OR NEW.previous_hash IS NOT NULL OR NEW.hash IS NOT NULL)
    EXECUTE FUNCTION audit_event_marked();
