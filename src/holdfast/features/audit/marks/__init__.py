"""What makes the log hold: the chain, its keys, sealing and verifying it."""
