"""Owns Content: a piece of what agents read, in a resource or in a prompt's message."""

from dataclasses import dataclass

MARKDOWN = "text/markdown"


@dataclass(frozen=True, slots=True)
class Content:
    """Text, or bytes such as a picture, and what they are."""

    data: str | bytes
    mime_type: str = MARKDOWN
    uri: str | None = None
    """The resource that it is, where a prompt quotes one."""
