"""Background work that survives the process that ran it."""
