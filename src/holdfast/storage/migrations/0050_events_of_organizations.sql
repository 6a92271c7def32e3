-- Events that concern a whole organization rather than one of its workspaces: keys, people, endpoints, usage.
ALTER TABLE event ADD COLUMN organization_id TEXT;
