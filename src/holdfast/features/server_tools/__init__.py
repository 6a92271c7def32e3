"""Tools that compute, look things up on the web, and read code elsewhere."""
