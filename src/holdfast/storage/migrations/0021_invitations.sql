-- Nobody is put into an organization: people are invited, and join when they accept. The link's secret is kept as a digest.
CREATE TABLE invitation (
    id TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organization(id) ON DELETE CASCADE,
    email TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    ended_at INTEGER,
    outcome TEXT
);

CREATE INDEX invitation_organization ON invitation(organization_id, id);

CREATE INDEX invitation_email ON invitation(email);

-- Where a sign-in link leads and who made it: both are looked at again when it is used.
ALTER TABLE sign_in_link ADD COLUMN organization_id TEXT;

ALTER TABLE sign_in_link ADD COLUMN created_by TEXT;
