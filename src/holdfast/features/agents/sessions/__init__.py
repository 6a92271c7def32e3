"""Agents at work."""
