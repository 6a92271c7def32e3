"""Owns the OpenAPI document of the management API, generated from its operations, and the page that shows it."""

import re
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from holdfast import __version__
from holdfast.core.access import Access
from holdfast.core.model import NoQuery
from holdfast.core.operations import Operation

_ERROR_REF = {"$ref": "#/components/schemas/Problem"}
_PROBLEM = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "fields", "request_id"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "fields": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
                    },
                },
                "request_id": {"type": "string"},
            },
        }
    },
}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The whole document."""
    models: set[tuple[type[BaseModel], Literal["validation", "serialization"]]] = set()
    for operation in operations:
        models |= {(operation.body, "validation")} if operation.body is not None else set()
        models |= {(operation.answer, "serialization")} if operation.answer is not None else set()
    refs, definitions = models_json_schema(
        sorted(models, key=lambda each: (each[0].__module__, each[0].__name__, each[1])),
        ref_template="#/components/schemas/{model}",
    )
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, refs)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": __version__, "description": "The management API."},
        "security": [{"key": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": {**definitions.get("$defs", {}), "Problem": _PROBLEM},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "holdfast_session"},
            },
        },
    }


def _operation(operation: Operation, refs: dict[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": re.sub(r"\W+", "_", f"{operation.method.lower()}{operation.path}").strip("_"),
        "tags": [operation.tag],
        "description": _needs(operation.access),
        "x-access": operation.access.as_json(),
        "parameters": [*_path_parameters(operation), *_query_parameters(operation)],
        "responses": {str(operation.status): _success(operation, refs)},
    }
    for status, text in (
        (400, "The request could not be read"),
        (401, "No valid credential"),
        (403, "The credential may not do this"),
        (404, "No such thing for this caller"),
        (409, "The present state does not allow it"),
        (413, "The body is too large"),
        (422, "The input breaks a rule"),
        (429, "Too many requests"),
        (503, "Storage is full or away"),
    ):
        found["responses"][str(status)] = {"description": text, "content": {"application/json": {"schema": _ERROR_REF}}}
    if operation.body is not None:
        schema = refs[(operation.body, "validation")]
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    elif operation.upload is not None:
        content = {"schema": {"type": "object", "properties": {"file": {"type": "string", "format": "binary"}}}}
        found["requestBody"] = {"required": True, "content": {operation.upload: content}}
    return found


def _needs(access: Access) -> str:
    """The declaration in a sentence; where a row says `admin`, a workspace's own admin will do within it."""
    parts = [f"the scope {' or '.join(access.scopes)}"]
    parts += [f"the role {access.role}"] if access.role != "member" else []
    parts += [f"of a key the tier {access.tier}"] if access.tier != "core" else []
    people = " People only." if access.people_only else ""
    return f"Level: {access.level}. Needs {' and '.join(parts)}.{people}"


def _success(operation: Operation, refs: dict[Any, Any]) -> dict[str, Any]:
    if operation.answer is None:
        if operation.status == 204:
            return {"description": "Done"}
        return {"description": "Done", "content": {operation.produces: {}}}
    schema = refs[(operation.answer, "serialization")]
    if operation.paged:
        cursor = {"type": ["string", "null"]}
        items = {"type": "array", "items": schema}
        schema = {
            "type": "object",
            "required": ["items", "next_cursor"],
            "properties": {"items": items, "next_cursor": cursor},
        }
    return {"description": "Done", "content": {"application/json": {"schema": schema}}}


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    names = re.findall(r"\{(\w+)\}", operation.path)
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    if operation.query is NoQuery:
        return []
    schema = operation.query.model_json_schema()
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _inlined(value, schema)}
        for name, value in schema.get("properties", {}).items()
    ]


def _inlined(value: Any, schema: dict[str, Any]) -> Any:
    """Query schemas are small: references into their own definitions are written out."""
    if isinstance(value, dict):
        if "$ref" in value:
            return _inlined(schema["$defs"][value["$ref"].rsplit("/", 1)[1]], schema)
        return {key: _inlined(item, schema) for key, item in value.items()}
    if isinstance(value, list):
        return [_inlined(item, schema) for item in value]
    return value
