"""Owns what a question asks: its aspects and the topic of each."""
