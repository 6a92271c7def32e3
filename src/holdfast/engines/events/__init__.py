"""Live updates: what was committed here or in another process, to whoever listens."""
