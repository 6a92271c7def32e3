"""Owns what tests of every layer share: a private PostgreSQL, migrated databases, a clock that can be moved."""
