"""Owns pins: the digest of a tool as its server described it, what changed since, and text that steers models."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.engines.mcp_client.base import ServedTool
from holdfast.features.catalog.model import ToolDescription

_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")
# Letters that people do not see: tags, zero-width, directions, fillers, private use.
_HIDDEN_CATEGORIES = frozenset({"Cf", "Co", "Cs", "Cn"})
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5")
# A soft hyphen breaks words; a joiner makes one picture of several.
_PLAIN_FORMAT = frozenset("\u00ad\u200d")
_FILES = "names files with credentials"
_STEERING = (
    (
        re.compile(
            r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:previous|prior|above|earlier|other|all|system)\b",
            re.I,
        ),
        "tells the model to ignore other instructions",
    ),
    (
        re.compile(
            r"\b(?:before|after|instead of|when(?:ever)?)\s+(?:using|calling|you (?:use|call)|invoking)\s+"
            r"(?:any|other|another|every|the)?\s*(?:other\s+)?tools?\b|\b(?:other|all|every) tools? (?:must|should)\b",
            re.I,
        ),
        "gives instructions about other tools",
    ),
    (
        re.compile(
            r"\b(?:do not|don't|never)\s+(?:tell|mention|inform|show|reveal)\b.{0,40}\b(?:user|person|human)", re.I
        ),
        "asks to hide something from the person",
    ),
    (re.compile(r"</?\s*(?:important|system|instructions?|secret|admin)\s*>", re.I), "has a tag made for models"),
    (
        re.compile(
            r"(?:~/|\$HOME/|/home/|/root/)?\.(?:ssh|aws|cursor|env|netrc|npmrc)\b|\bid_rsa\b|\bmcp\.json\b|/etc/passwd",
            re.I,
        ),
        _FILES,
    ),
)


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
    return any(not flag.endswith(_FILES) for flag in flags)


def flags_of(tool: ToolDescription) -> tuple[str, ...]:
    """What in a tool's text tries to steer a model, in words; empty for most."""
    found: dict[str, None] = {}
    for where, text in _texts(description_json(tool)):
        hidden = sorted({f"U+{ord(letter):04X}" for letter in text if _is_hidden(letter)})
        if hidden:
            found[f"{where}: has letters that people do not see ({', '.join(hidden[:5])})"] = None
        for pattern, what in _STEERING:
            if pattern.search(text[:20_000]) is not None:
                found[f"{where}: {what}"] = None
    return tuple(found)[:20]


def _is_hidden(letter: str) -> bool:
    if letter in _FILLERS:
        return True
    return unicodedata.category(letter) in _HIDDEN_CATEGORIES and letter not in _PLAIN_FORMAT


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
