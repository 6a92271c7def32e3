"""Agents on the command line."""
