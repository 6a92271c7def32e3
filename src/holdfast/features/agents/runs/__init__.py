"""Sessions while they run."""
