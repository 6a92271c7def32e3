"""The REST operations of intelligence, by noun."""
