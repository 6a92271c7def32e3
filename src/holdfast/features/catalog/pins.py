"""Owns pins: the digest of a tool as its server described it, what changed since, and which of its text is suspect."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.engines.mcp_client.base import ServedTool
from holdfast.features.catalog.model import ToolDescription
from holdfast.features.catalog.steering import FILES, found_in

_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")


def description_of(tool: ServedTool) -> ToolDescription:
    """A tool as its server describes it."""
    return ToolDescription(
        tool.name, tool.title, tool.description, tool.input_schema, tool.output_schema, tool.annotations
    )


def description_json(tool: ToolDescription) -> dict[str, Any]:
    """The description as it is kept and shown."""
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": tool.annotations,
    }


def description_from(kept: Mapping[str, Any]) -> ToolDescription:
    """The description that was kept."""
    return ToolDescription(
        kept["name"],
        kept["title"],
        kept["description"],
        kept["inputSchema"],
        kept["outputSchema"],
        kept["annotations"],
    )


def digest_of(tool: ToolDescription) -> str:
    """What stands for every word of a description: another one has another digest."""
    text = json.dumps(description_json(tool), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def can_be_called(name: str) -> bool:
    """Whether a tool's name can stand behind its server's on every surface."""
    return _NAME.fullmatch(name) is not None


def changes(before: ToolDescription, after: ToolDescription) -> dict[str, dict[str, Any]]:
    """What differs, by part: `{"description": {"before": …, "after": …}}`."""
    old, new = description_json(before), description_json(after)
    return {part: {"before": old[part], "after": new[part]} for part in old if old[part] != new[part]}


def is_suspect(flags: tuple[str, ...]) -> bool:
    """Whether a person has to look before a model does: text that speaks to models rather than of the tool."""
    return any(not flag.endswith(FILES) for flag in flags)


def flags_of(tool: ToolDescription) -> tuple[str, ...]:
    """What in a tool's text tries to steer a model, in words; empty for most."""
    found: dict[str, None] = {}
    for where, text in _texts(description_json(tool)):
        found |= dict.fromkeys(f"{where}: {what}" for what in found_in(text))
    return tuple(found)[:20]


def _texts(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where or "text", value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            # Names of properties are read by models too.
            yield from _texts(str(key), f"{where}.{key}"[:120] if where else str(key)[:120])
            yield from _texts(item, f"{where}.{key}"[:120] if where else str(key)[:120])
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _texts(item, f"{where}[{number}]")
