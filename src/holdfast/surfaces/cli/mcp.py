"""Owns `holdfast mcp tools`: the tools that agents get."""

import json
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from holdfast.core.commands import Commands, Given, Session
from holdfast.core.principal import Tier
from holdfast.core.text.schema import input_schema, output_schema
from holdfast.core.tools.gateway import Gateway
from holdfast.core.tools.tool import AnyTool

mcp = Commands("mcp", help="The tools that agents get.")


class Wanted(Given):
    """What `tools` is given."""

    tier: Tier = Field("all", description="Only what a key of this tier sees.")
    markdown: bool = Field(False, description="Print the page of the documentation.")


@mcp.command("tools", help="List the tools that agents get.")
async def tools(session: Session, gateway: Gateway, given: Wanted) -> None:
    found = [tool for tool in gateway.listed("mcp") if tool.within(given.tier)]
    if given.markdown:
        session.out.write(tools_page(found))
        return
    session.out.table(map(_row, found), ["name", "tier", "title", "writes"])


def _row(tool: AnyTool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "tier": tool.tier,
        "title": tool.title,
        "writes": not tool.annotations.read_only,
        "description": tool.description,
        "input_schema": input_schema(tool.input),
        "output_schema": output_schema(tool.output),
    }


def tools_page(found: Sequence[AnyTool]) -> str:
    """docs/tools.md: every tool as its definition has it."""
    lines = [
        "# Tools",
        "",
        "Generated from the tools themselves by `holdfast mcp tools --markdown`; a test keeps this page as it says.",
        "A key's tier decides which of these it sees: `core` is in every tier, `intel` in `intel` and `all`, `exec` in "
        "`exec` and `all`.",
        "",
        "| tool | tier | writes | asks the internet |",
        "|---|---|---|---|",
    ]
    for tool in found:
        notes = tool.annotations
        lines.append(
            f"| [`{tool.name}`](#{tool.name.replace('.', '').replace('_', '_')}) | {tool.tier} "
            f"| {'no' if notes.read_only else 'yes'} | {'yes' if notes.open_world else 'no'} |"
        )
    for tool in found:
        lines += ["", f"## {tool.name}", "", f"{tool.title}. {tool.description}", "", "Takes:", ""]
        lines += _fields(input_schema(tool.input))
        lines += ["", "Gives:", "", "```json", json.dumps(output_schema(tool.output), ensure_ascii=False), "```"]
    return "\n".join(lines) + "\n"


def _fields(schema: dict[str, Any]) -> list[str]:
    required = set(schema.get("required", ()))
    lines = []
    for name, field in schema["properties"].items():
        kind = field.get("type") or ("one of several" if "anyOf" in field else "any")
        told = field.get("description", "").rstrip(".")
        default = f", `{json.dumps(field['default'])}` where absent" if "default" in field else ""
        lines.append(
            f"- `{name}` ({kind}{', required' if name in required else ''}{default}){': ' if told else ''}{told}"
        )
    return lines or ["- nothing"]
