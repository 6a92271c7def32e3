"""Agents: definitions, sessions in sandboxes, and the gate that nothing secret crosses."""
