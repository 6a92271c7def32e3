"""Owns what a secret looks like from outside: its name and its history, never its value."""

import re
from dataclasses import dataclass

from holdfast.core.errors import Conflict, FieldError, Invalid, NotFound

NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret's metadata. A cleared secret keeps its name, so that whoever refers to it can be told."""

    id: str
    workspace_id: str
    name: str
    is_set: bool
    created_at: int
    updated_at: int
    updated_by: str


class SecretNotFound(NotFound):
    """No secret of this name in the workspace."""

    def __init__(self, name: str) -> None:
        super().__init__("secret", name[:80])


class SecretNotSet(Conflict):
    """Something refers to a secret that has no value now."""

    code = "secret_not_set"

    def __init__(self, name: str) -> None:
        super().__init__(f"The secret {name} has no value; set it with `holdfast secrets set {name}`.")


def checked_name(name: str) -> str:
    """The name, if it is one: capitals, digits and underscores."""
    if NAME.fullmatch(name) is None:
        problem = "use capitals, digits and underscores, not beginning with a digit, at most 64: LINEAR_API_KEY"
        raise Invalid("The secret's name cannot be used.", fields=[FieldError("name", problem)])
    return name


def checked_value(value: str) -> str:
    """The value, if an environment variable can hold it."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= MAX_BYTES or "\0" in value:
        problem = f"write 1 to {MAX_BYTES} bytes of text without NUL"
        raise Invalid("The secret's value cannot be used.", fields=[FieldError("value", problem)])
    return value
