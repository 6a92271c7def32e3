"""Models behind somebody's HTTP API."""
