"""Holdfast: durable project memory and governed tools for every AI agent on a team."""

__version__ = "0.1.0"
