"""Pages of the catalog: MCP servers that a workspace runs, and their tools."""
