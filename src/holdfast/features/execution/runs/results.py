"""Owns results that are too large to be handed on as they are: shortened, with the whole as an artifact."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from holdfast.core.principal import Principal
from holdfast.core.resources import artifact_uri
from holdfast.core.tools.shortening import shortened
from holdfast.engines.mcp_client.base import CallResult
from holdfast.features.artifacts.model import WORKSPACE_BYTES, NewArtifact
from holdfast.features.artifacts.service import ArtifactService

# Together less than the least that is ever allowed, however they are written.
_FEW_VALUES = 500
_FEW_CHARACTERS = 20_000


async def bounded(
    artifacts: ArtifactService,
    principal: Principal,
    workspace_id: str,
    given: CallResult,
    *,
    identifier: str,
    title: str,
    most: int,
) -> Mapping[str, Any]:
    """The result; one of more bytes than `most` shortened, with the whole as an artifact."""
    result: dict[str, Any] = {"content": [dict(block) for block in given.content]}
    if given.structured is not None:
        result["structuredContent"] = dict(given.structured)
    if _is_small(result):
        return result
    text = await asyncio.to_thread(json.dumps, result, indent=2, ensure_ascii=False)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size <= most:
        return result
    fits = size <= WORKSPACE_BYTES
    kept = text if fits else text.encode("utf-8", "replace")[:WORKSPACE_BYTES].decode(errors="ignore")
    new = NewArtifact(
        identifier=identifier, title=title, type="application/json" if fits else "text/plain", content=kept
    )
    made = await artifacts.create(principal, workspace_id, new)
    uri = artifact_uri(made.id)
    cut = shortened(result, most // 4)
    cut["content"] = [
        *cut.get("content", []),
        {"type": "text", "text": f"[Shortened. The whole result, {size} bytes, is at {uri}]"},
        {"type": "resource_link", "uri": uri, "name": made.id},
    ]
    return cut


def _is_small(value: Any) -> bool:
    """Whether it is so small that its bytes need not be counted; looks at no more than that takes."""
    left, characters, todo = _FEW_VALUES, _FEW_CHARACTERS, [value]
    while todo:
        each = todo.pop()
        left -= 1
        if isinstance(each, str):
            characters -= len(each)
        elif isinstance(each, Mapping):
            todo += each
            todo += each.values()
        elif isinstance(each, (list, tuple)):
            todo += each
        elif isinstance(each, int) and not isinstance(each, bool):
            characters -= each.bit_length() // 3
        if characters < 0 or left < len(todo):
            return False
    return True
