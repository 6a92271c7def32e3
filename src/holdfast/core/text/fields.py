"""Owns how wrong input is explained: pydantic's findings as field errors with remedies."""

import re

from pydantic import ValidationError

from holdfast.core.errors import FieldError, Invalid

_REMEDIES = {
    "missing": "this field is required; add it",
    "extra_forbidden": "no such field here; remove it or check its spelling",
    "model_type": "write a JSON object",
    "model_attributes_type": "write a JSON object",
    "dataclass_type": "write a JSON object",
    "dict_type": "write a JSON object",
}


# Where one of several shapes may stand, pydantic names the shape that it tried; nobody wrote that.
_SHAPE = re.compile(r"(?:list|dict)\[.*\]|[A-Z]\w*(?:Body|Input)")
_WHOLE = "(whole)"


def invalid(error: ValidationError, what: str = "The input") -> Invalid:
    """Invalid with the path and the remedy of everything that is wrong."""
    fields = [FieldError(_path(found["loc"]), _remedy(found["type"], found["msg"])) for found in error.errors()]
    # What is wrong inside of one shape tells more than that it is no other.
    fields = [wrong for wrong in fields if wrong.field != _WHOLE] or fields
    named = "; ".join(f"{wrong.field}: {wrong.message}" for wrong in fields[:3])
    return Invalid(f"{what} is not valid: {named}.", fields=fields)


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for step in location:
        if isinstance(step, str) and _SHAPE.fullmatch(step):
            continue
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    return path or _WHOLE


def _remedy(kind: str, message: str) -> str:
    if kind in _REMEDIES:
        return _REMEDIES[kind]
    if kind == "value_error":
        return message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]
