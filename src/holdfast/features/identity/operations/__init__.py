"""The REST operations of identity, by noun."""
