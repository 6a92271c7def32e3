"""Owns the parts of the soak: the server under test, its load, what is done to it, and what is seen of it."""
