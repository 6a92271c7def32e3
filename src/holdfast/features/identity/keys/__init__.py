"""API keys and bearer tokens."""
