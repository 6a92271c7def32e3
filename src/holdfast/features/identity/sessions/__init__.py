"""How people sign in."""
