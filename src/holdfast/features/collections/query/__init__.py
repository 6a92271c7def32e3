"""The small read-only language in which agents ask the graph."""
