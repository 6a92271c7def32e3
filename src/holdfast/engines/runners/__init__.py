"""Driving agents: programs in a sandbox that work on a task, each over a protocol of its own."""
