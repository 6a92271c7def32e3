"""Owns form fields that hold several values, one a line."""

from holdfast.core.errors import FieldError


def lines_of(text: str) -> list[str]:
    """The lines that say something."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def pairs_of(text: str, between: str, field: str, wrong: list[FieldError]) -> dict[str, str]:
    """Names with their values; a line that is none is added to what is wrong."""
    found: dict[str, str] = {}
    for number, line in enumerate(lines_of(text), 1):
        name, sign, value = line.partition(between)
        if not sign or not name.strip():
            wrong.append(FieldError(field, f"write NAME{between}value on line {number}"))
        found[name.strip()] = value.strip()
    return found
