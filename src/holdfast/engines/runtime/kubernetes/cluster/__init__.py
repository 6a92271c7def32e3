"""Speaks with an API server."""
