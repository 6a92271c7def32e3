"""How people come into an organization."""
