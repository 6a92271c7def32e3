"""What MCP serves: tools, prompts and resources."""
