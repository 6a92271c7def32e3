"""Owns the JSON Schemas that clients see of our models: complete, but without what only costs context."""

import json
from typing import Any

from pydantic import BaseModel

_NULL = {"type": "null"}
_DATA_KEYS = frozenset({"enum", "const", "examples", "required", "default"})
# Bounds that no agent comes near; the server checks and explains them.
_UNTOLD = frozenset({"maxLength", "maxItems"})
_FAR = 2**53
# What a reader of results gains nothing from.
_UNTOLD_IN_RESULTS = _UNTOLD | {"description", "default", "minLength", "minimum", "maximum", "pattern", "format"}


def input_schema(model: type[BaseModel]) -> dict[str, Any]:
    """What a model takes, in words that every client's schema reader knows: no references, no null types.

    Descriptions stay: they are how an agent knows what to write. A field that may be null is simply not required.
    """
    schema = model.model_json_schema(mode="validation", by_alias=True)
    definitions = schema.pop("$defs", {})
    compact = _node(schema, definitions, describe=True, within=())
    # A class's own sentence is for people who read code; the tool's description is for agents.
    compact.pop("description", None)
    return {"type": "object", "properties": {}, **compact}


def output_schema(model: type[BaseModel]) -> dict[str, Any]:
    """What a model gives. Descriptions go, and so does what is always there: the result speaks for itself."""
    schema = model.model_json_schema(mode="serialization", by_alias=True)
    compact: dict[str, Any] = _node(schema, None, describe=False, within=())
    for definition in (compact, *compact.get("$defs", {}).values()):
        definition.pop("required", None)
    return {**_without_plain_types(_with_single_uses_in_place(compact)), "type": "object"}


def _without_plain_types(node: Any, *, inner: bool = False) -> Any:
    """The same in less room: what has properties is an object, what has items a list, what has choices a text.

    So is what has nothing to say of itself within (`inner`) the things that a result lists."""
    if isinstance(node, list):
        return [_without_plain_types(item, inner=inner) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {"properties": "object", "items": "array", "enum": "string"}
    implied = any(key in node and node.get("type") == kind for key, kind in plain.items())
    implied = implied or (inner and node == {"type": "string"})
    return {
        key: _without_plain_types(value, inner=inner or key in ("items", "$defs"))
        for key, value in node.items()
        if not (implied and key == "type")
    }


def _with_single_uses_in_place(schema: dict[str, Any]) -> dict[str, Any]:
    """A definition that is used once says the same where it is used, in less room."""
    definitions = schema.get("$defs", {})
    uses = json.dumps(schema)
    single = {name for name in definitions if uses.count(f'"#/$defs/{name}"') == 1}

    def placed(node: Any, within: tuple[str, ...] = ()) -> Any:
        if isinstance(node, list):
            return [placed(item, within) for item in node]
        if not isinstance(node, dict):
            return node
        name = str(node.get("$ref", "")).removeprefix("#/$defs/")
        if name in single and name not in within:
            rest = {key: value for key, value in node.items() if key != "$ref"}
            return placed({**definitions[name], **rest}, (*within, name))
        return {key: placed(value, within) for key, value in node.items()}

    kept = {name: definition for name, definition in definitions.items() if name not in single}
    rest = {key: value for key, value in schema.items() if key != "$defs"}
    return dict(placed({"$defs": kept, **rest} if kept else rest))


def _node(schema: Any, definitions: dict[str, Any] | None, *, describe: bool, within: tuple[str, ...]) -> Any:
    if isinstance(schema, list):
        return [_node(item, definitions, describe=describe, within=within) for item in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if definitions is not None and isinstance(reference, str):
        return _inlined(schema, reference.removeprefix("#/$defs/"), definitions, within)
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key in (_UNTOLD if describe else _UNTOLD_IN_RESULTS) or (key == "title" and isinstance(value, str)):
            continue
        if _says_nothing(key, value):
            continue
        if key in ("properties", "$defs"):
            found[key] = {
                name: _node(sub, definitions, describe=describe, within=within) for name, sub in value.items()
            }
        elif key in _DATA_KEYS:
            found[key] = value
        else:
            found[key] = _node(value, definitions, describe=describe, within=within)
    return _without_null(found) if definitions is not None else _joined(found)


def _says_nothing(key: str, value: Any) -> bool:
    """Whether a reader would assume the same without being told."""
    if key in ("minimum", "minLength"):
        return value in (0, 1)
    if key == "maximum":
        return bool(value >= _FAR)
    return (key == "default" and value in (None, "")) or (key == "additionalProperties" and isinstance(value, bool))


def _inlined(schema: dict[str, Any], name: str, definitions: dict[str, Any], within: tuple[str, ...]) -> Any:
    if name in within:
        # A model that holds itself: below the first level anything goes, and the server checks it.
        return {"type": "object"}
    whole = {key: value for key, value in definitions[name].items() if key != "description"}
    whole |= {key: value for key, value in schema.items() if key != "$ref"}
    return _node(whole, definitions, describe=True, within=(*within, name))


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    options = schema.get("anyOf")
    if not isinstance(options, list) or _NULL not in options:
        return schema
    left = [option for option in options if option != _NULL]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**left[0], **rest} if len(left) == 1 else {"anyOf": left, **rest}


def _joined(schema: dict[str, Any]) -> dict[str, Any]:
    """`anyOf` of a plain type and null is one type list, which says the same in a third of the room."""
    options = schema.get("anyOf")
    if not isinstance(options, list) or len(options) != 2 or _NULL not in options:
        return schema
    other = next((option for option in options if option != _NULL), None)
    if not isinstance(other, dict) or not isinstance(other.get("type"), str) or {"enum", "const"} & other.keys():
        return schema
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**other, **rest, "type": [other["type"], "null"]}
