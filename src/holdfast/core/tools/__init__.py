"""Owns what a model can call: the Tool, and the one gateway that runs it for MCP, chat and ask."""
