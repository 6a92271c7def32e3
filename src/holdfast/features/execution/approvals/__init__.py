"""Decisions of people about single calls."""
