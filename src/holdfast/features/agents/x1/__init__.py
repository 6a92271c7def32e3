"""The built-in MCP server `x1agent`: 25 tools by which an agent in a session talks, remembers, asks and delegates."""
