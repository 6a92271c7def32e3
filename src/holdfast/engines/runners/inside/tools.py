"""Owns what a tool of the built-in agent is: what it is called, takes and does; and those that it has itself."""

import json
from collections.abc import Callable
from typing import Any

from holdfast.engines.runners.inside.commands import Commands
from holdfast.engines.runners.inside.failing import ToolFailed
from holdfast.engines.runners.inside.files import AgentFiles
from holdfast.engines.runners.inside.stopping import Stopping

__all__ = ["AgentTool", "ToolFailed", "bounded", "own_tools"]

MOST_CHARACTERS = 40_000


class AgentTool:
    """One tool, as the model sees it and as it runs."""

    def __init__(
        self, name: str, description: str, schema: dict[str, Any], run: Callable[[dict[str, Any]], str]
    ) -> None:
        self.name = name
        self._description = description
        self._schema = schema
        self._run = run

    def offered(self) -> dict[str, Any]:
        """For the model."""
        function = {"name": self.name, "description": self._description, "parameters": self._schema}
        return {"type": "function", "function": function}

    def run(self, arguments: dict[str, Any]) -> str:
        """Run it; ToolFailed, with a text for the model, where it can't."""
        return self._run(arguments)


def bounded(text: str) -> str:
    """Beginning and end of a text that is too long for a model."""
    if len(text) <= MOST_CHARACTERS:
        return text
    half = MOST_CHARACTERS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"


def own_tools(directory: str, stopping: Stopping) -> list[AgentTool]:
    """Files, commands and git of the sandbox."""
    files, commands = AgentFiles(directory), Commands(directory, stopping)
    path = {"type": "string", "description": "A path, from your directory or absolute."}
    text = {"type": "string"}
    number = {"type": "integer", "minimum": 1}
    return [
        _tool(
            "read_file",
            "Read a text file, or some lines of it.",
            files.read,
            required={"path": path},
            optional={"first_line": number, "lines": number},
        ),
        _tool(
            "write_file",
            "Write a file, with the folders that it needs.",
            files.write,
            required={"path": path, "content": text},
        ),
        _tool(
            "edit_file",
            "Replace a text in a file. It must stand there exactly once, unless all are to be replaced.",
            files.edit,
            required={"path": path, "old_text": text, "new_text": text},
            optional={"all": {"type": "boolean"}},
        ),
        _tool("list_files", "List a folder and everything below it.", files.names, optional={"path": path}),
        _tool(
            "search_files",
            "Find lines that match a regular expression, below a folder.",
            files.search,
            required={"pattern": text},
            optional={"path": path, "name": {"type": "string", "description": "Only files whose name is like *.py"}},
        ),
        _tool(
            "run_command",
            "Run a line of /bin/sh in your directory; you get what it prints. It has no terminal and no network.",
            commands.run,
            required={"command": text},
            optional={"timeout_seconds": {"type": "integer", "minimum": 1, "maximum": 3_600}},
        ),
        _tool(
            "git",
            "Run git in your directory, with these arguments.",
            commands.git,
            required={"arguments": {"type": "array", "items": text, "minItems": 1}},
        ),
    ]


def _tool(
    name: str,
    description: str,
    run: Callable[..., str],
    *,
    required: dict[str, Any] = {},
    optional: dict[str, Any] = {},
) -> AgentTool:
    properties = {**required, **optional}
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}

    def checked(arguments: dict[str, Any]) -> str:
        for field in required:
            if field not in arguments:
                raise ToolFailed(f"{field}: it is missing.")
        for field, value in arguments.items():
            if field not in properties:
                raise ToolFailed(f"{field}: {name} takes only {', '.join(properties)}.")
            _check(field, value, properties[field])
        return run(**arguments)

    return AgentTool(name, description, schema, checked)


_TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool, "array": list}


def _check(field: str, value: Any, schema: dict[str, Any]) -> None:
    kind: Any = _TYPES[schema["type"]]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ToolFailed(f"{field}: {json.dumps(value)[:100]} is not of type {schema['type']}.")
    if kind is int and not schema["minimum"] <= value <= schema.get("maximum", 1 << 53):
        raise ToolFailed(f"{field}: {value} is not between {schema['minimum']} and {schema.get('maximum', '2^53')}.")
    if kind is list and not (value and all(isinstance(each, str) for each in value)):
        raise ToolFailed(f"{field}: it must be a list of texts with at least one.")
