"""Owns arguments of enrolled tools: their one canonical form, and a first look by the pinned schema."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from holdfast.core.errors import FieldError, Invalid

MAX_BYTES = 1024 * 1024
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
    "null": (type(None),),
}


def canonical(arguments: Mapping[str, Any]) -> str:
    """One text for arguments that mean the same: keys in order, no spaces, 1.0 as 1."""
    return json.dumps(_plain(arguments), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(text: str) -> str:
    """What stands for a canonical text."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def check_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """The canonical form; Invalid where the schema's first level says that the server would refuse them.

    Only the first level: the schema is the server's own text, and reading all of it could take for ever.
    """
    try:
        text = canonical(arguments)
    except (ValueError, RecursionError, TypeError):
        raise _wrong([FieldError("arguments", "write plain JSON: no NaN, and not nested without end")]) from None
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise _wrong([FieldError("arguments", f"at most {MAX_BYTES:,} bytes")])
    wrong: list[FieldError] = []
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str) and name not in arguments:
            wrong.append(FieldError(f"arguments.{name[:80]}", "this field is required"))
    for name, value in arguments.items():
        rule = known.get(name)
        if rule is None and schema.get("additionalProperties") is False:
            names = ", ".join(map(str, known)) or "none"
            wrong.append(FieldError(f"arguments.{name[:80]}", f"no such argument; there are: {names}"[:300]))
        elif isinstance(rule, Mapping) and (problem := _problem(rule, value)) is not None:
            wrong.append(FieldError(f"arguments.{name[:80]}", problem))
    if wrong:
        raise _wrong(wrong)
    return text


def _problem(rule: Mapping[str, Any], value: Any) -> str | None:
    kinds = rule.get("type")
    wanted = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    if wanted and all(kind in _TYPES for kind in wanted) and not any(_is(kind, value) for kind in wanted):
        return f"this must be of type {' or '.join(wanted)}"
    enum = rule.get("enum")
    if isinstance(enum, list) and enum and value not in enum:
        return f"use one of {', '.join(map(str, enum))}"[:300]
    return None


def _is(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _wrong(fields: list[FieldError]) -> Invalid:
    return Invalid("The arguments are not what the tool takes.", fields=fields)
