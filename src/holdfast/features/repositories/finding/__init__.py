"""Search over repositories."""
