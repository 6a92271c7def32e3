"""MCP servers as we call them: started in the sandbox over stdio, or remote over HTTP."""
