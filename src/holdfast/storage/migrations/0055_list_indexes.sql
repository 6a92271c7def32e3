-- Lists of the dashboard find their first rows without sorting all.

CREATE INDEX mcp_client_seen ON mcp_client (organization_id, last_seen_at DESC, name, version);

CREATE INDEX permission_grant_newest ON permission_grant (workspace_id, id);
