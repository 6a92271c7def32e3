"""Owns `find_tool`, by which a key that is not shown the list of tools finds those that it needs."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from holdfast.core.access import ANY
from holdfast.core.text import jsontext
from holdfast.core.tools.tool import Annotations, AnyTool, Tool, ToolCall

FIND_TOOL = "find_tool"
MOST = 20


class FindInput(BaseModel):
    model_config = ConfigDict(extra="ignore")

    query: str = Field("", description="What you want to do; empty for everything")
    limit: int = Field(5, description="How many at most")


class FoundTool(BaseModel):
    name: str
    title: str
    description: str
    inputSchema: dict[str, Any]  # noqa: N815 – as MCP spells it


class FindOutput(BaseModel):
    tools: list[FoundTool]


def find_tool(visible: Callable[[ToolCall], Awaitable[Sequence[AnyTool]]]) -> AnyTool:
    """The tool over what whoever calls it sees."""

    async def find(call: ToolCall, given: FindInput) -> FindOutput:
        ranked = ranked_tools(await visible(call), given.query)[: max(1, min(given.limit, MOST))]
        return FindOutput(
            tools=[
                FoundTool(
                    name=tool.name,
                    title=tool.title,
                    description=tool.description,
                    inputSchema=tool.input_schema(),
                )
                for tool in ranked
            ]
        )

    return Tool(
        name=FIND_TOOL,
        title="Find a tool",
        description=(
            "Find tools of this server by what they do. Use it first: the catalog is not listed. Gives names, "
            'descriptions and argument schemas. Example: {"query": "record a decision"}'
        ),
        input=FindInput,
        output=FindOutput,
        handler=find,
        annotations=Annotations(read_only=True, idempotent=True),
        access=ANY,
        text=_text,
        consumer="catalog",
    )


def ranked_tools(tools: Sequence[AnyTool], query: str) -> list[AnyTool]:
    """The tools that share words with a query, best first; all of them for an empty one."""
    wanted = set(_words(query))
    if not wanted:
        return list(tools)
    scored = []
    for position, tool in enumerate(tools):
        in_name, in_text = set(_words(f"{tool.name} {tool.title}")), set(_words(tool.description))
        score = 3 * len(wanted & in_name) + len(wanted & in_text)
        if score:
            scored.append((-score, position, tool))
    return [tool for _, _, tool in sorted(scored, key=lambda item: item[:2])]


def _words(text: str) -> list[str]:
    # The first five letters stand for a word's family: "decide", "decisions" and "decided" find each other.
    return [word[:5] for word in re.findall(r"[a-z0-9]{2,}", text.lower()) if word != "xerotier"]


def _schema(tool: FoundTool) -> str:
    return jsontext.dumps(tool.inputSchema).decode()


def _text(output: FindOutput) -> str:
    # The schemas too: some clients show their model nothing but text, and it has to write the arguments.
    lines = [f"{tool.name}: {tool.description}\nArguments: {_schema(tool)}" for tool in output.tools]
    return "\n\n".join(lines) or "No tool fits; try other words, or an empty query for all."
