"""Owns how a tool says that it could not do what it was asked."""


class ToolFailed(Exception):
    """Its text is read by the model, which can do something about it."""
