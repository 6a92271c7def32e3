-- What was found when somebody last looked at a prepared environment: its digest, or what is wrong with it.
ALTER TABLE proof_environment ADD COLUMN digest TEXT NOT NULL DEFAULT '';

ALTER TABLE proof_environment ADD COLUMN checked_at INTEGER;

ALTER TABLE proof_environment ADD COLUMN problem TEXT NOT NULL DEFAULT '';
