"""How agents are spoken with: reading their lines, turns, and each protocol."""
