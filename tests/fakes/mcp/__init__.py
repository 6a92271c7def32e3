"""MCP servers for tests, run as real programs in the real sandbox."""
