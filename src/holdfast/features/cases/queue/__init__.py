"""Who works on which case, and what waits for what."""
