"""The REST operations of repositories, by noun."""
