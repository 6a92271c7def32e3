"""Calls while they run."""
