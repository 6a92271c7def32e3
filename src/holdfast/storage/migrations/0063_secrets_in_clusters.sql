-- A secret's value as a `Secret` of a cluster: where it is (namespace/name), and which object was made there.

ALTER TABLE secret ADD COLUMN k8s_secret_ref TEXT;
ALTER TABLE secret ADD COLUMN k8s_secret_uid TEXT;

-- Every object that was ever asked for and is not known to be deleted, from before it is made: what a crash leaves
-- in a cluster is found by this.
CREATE TABLE secret_object (
    ref TEXT PRIMARY KEY,
    made_at INTEGER NOT NULL,
    dropped_at INTEGER
);
