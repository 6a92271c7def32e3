"""Conversations: items that are kept for responses to go on from."""
