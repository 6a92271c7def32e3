"""Chats that were deleted a while ago."""
