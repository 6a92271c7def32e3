"""Answers questions about repositories, each statement with a source that was checked."""
