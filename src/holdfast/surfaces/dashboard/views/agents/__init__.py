"""Pages of agents and their sessions."""
