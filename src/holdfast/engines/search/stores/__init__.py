"""The index in SQLite and in PostgreSQL."""
