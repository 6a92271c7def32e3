"""Synthesis: what a repository's history and files say about it, written where people and agents look."""
