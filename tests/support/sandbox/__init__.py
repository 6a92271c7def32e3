"""Programs that tests run in the sandbox, and what they need there."""
