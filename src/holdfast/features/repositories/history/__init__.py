"""What git knows of a repository: synced, kept and read."""
