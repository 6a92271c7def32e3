"""Owns what a key would see over MCP before it is made: tools, prompts and resources, with what each costs to read."""

import json
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

from holdfast.core.principal import Principal
from holdfast.core.tools.enrolled import MAX_LIST_CHARACTERS
from holdfast.core.tools.gateway import Gateway
from holdfast.core.tools.tool import AnyTool, Consumer
from holdfast.features.identity.model import NewKey
from holdfast.registry.prompts import Prompts
from holdfast.registry.resources import Resources


@dataclass(frozen=True, slots=True)
class Seen:
    """One thing that the key's client is told of when it connects."""

    name: str
    title: str
    size_bytes: int
    """Of what the client is sent; every model has tokens of its own, so those can only be estimated."""
    destructive: bool = False

    @property
    def tokens(self) -> int:
        return estimated_tokens(self.size_bytes)


@dataclass(frozen=True, slots=True)
class SeenByKey:
    """Everything that it is told of."""

    tools: tuple[Seen, ...]
    prompts: tuple[Seen, ...]
    resources: tuple[Seen, ...]
    enrolled: tuple[Seen, ...] = ()
    """Tools of the workspace's MCP servers that its list has room for."""
    more: int = 0
    """How many of them it has no room for: they are found by `find_tool`."""

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in (*self.tools, *self.enrolled, *self.prompts, *self.resources))

    @property
    def tokens(self) -> int:
        return estimated_tokens(self.size_bytes)


async def seen_by(
    new: NewKey,
    organization_id: str,
    workspace_id: str | None,
    gateway: Gateway,
    prompts: Prompts,
    resources: Resources,
) -> SeenByKey:
    """What a key like this would be listed in a workspace."""
    holder = Principal(
        organization_id=organization_id,
        actor="key_preview",
        proof="key",
        is_person=False,
        scopes=new.scopes,
        tier=new.tier,
        project_id=new.project_id,
        workspace_ids=new.workspace_ids,
        allow_destructive=new.allow_destructive,
    )
    consumer: Consumer = "mcp" if new.kind == "project" else "keystone"
    tools = [
        Seen(tool.name, tool.title, _size_of(tool), tool.annotations.destructive)
        for tool in gateway.visible(holder, consumer)
    ]
    if new.kind == "organization":
        return SeenByKey(tuple(tools), (), ())
    named = [
        Seen(
            each.name,
            each.title,
            _cost([each.name, each.title, each.description, *((a.name, a.description) for a in each.arguments)]),
        )
        for each in prompts.listed(holder)
    ]
    fixed = [
        Seen(each.uri, each.title, _cost([each.uri, each.name, each.title, each.description, each.mime_type]))
        for each in resources.fixed(holder)
    ]
    templates = [
        Seen(each.uri_template, each.title, _cost([each.uri_template, each.name, each.title, each.description]))
        for each in resources.templates(holder)
    ]
    room = MAX_LIST_CHARACTERS - sum(each.size_bytes for each in tools)
    served = [
        Seen(tool.name, tool.title, _cost(tool.described()), tool.annotations.destructive)
        for tool in await gateway.enrolled(holder, workspace_id)
    ]
    filled = accumulate(each.size_bytes for each in served)
    fitting = [each for each, size in zip(served, filled, strict=True) if size <= room]
    return SeenByKey(tuple(tools), tuple(named), (*fixed, *templates), tuple(fitting), more=len(served) - len(fitting))


def estimated_tokens(size_bytes: int) -> int:
    """About how many tokens a model reads: four bytes each."""
    return -(-size_bytes // 4)


@lru_cache(maxsize=1_000)
def _size_of(tool: AnyTool) -> int:
    """Kept, since making the schemas of all tools takes longer than the rest of the page."""
    return _cost(tool.described())


def _cost(told: Any) -> int:
    return len(json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode())
