"""Servers that speak other people's protocols, strictly."""
