"""The REST operations of governed execution, by noun."""
