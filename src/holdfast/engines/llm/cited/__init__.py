"""Holds what a model writes against the sources that it cites."""
