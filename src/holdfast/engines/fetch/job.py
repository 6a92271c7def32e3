"""Owns what a job in a worker process looks like."""

from collections.abc import Callable
from typing import Any

Run = Callable[[str, dict[str, Any], list[bytes]], Any]
"""A job's name, its parameters, and the bytes to work on; the answer goes back as JSON."""


class UnreadableContent(Exception):
    """A job's way to say in words why the content can't be read."""
