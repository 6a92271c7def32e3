"""The REST operations of cases and proofs."""
