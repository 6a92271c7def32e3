"""Background work as people and agents see it: what runs in their workspace, and stopping it."""
