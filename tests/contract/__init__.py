"""Owns the tie between the contract's rows and the tests that prove them."""
