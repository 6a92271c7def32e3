"""Limits and usage: how much each key, project and user may use, and how much they did."""
