"""The gate: what a session's agent reaches, one Unix socket for each server, and who decides about it."""
