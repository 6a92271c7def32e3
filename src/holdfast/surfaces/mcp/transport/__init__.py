"""MCP on HTTP: messages, sessions and streams in both protocol eras."""
