"""What an agent is."""
