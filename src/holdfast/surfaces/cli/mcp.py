"""Owns `holdfast mcp`: setting clients up, the tools that agents get, and the clients that connected."""

import json
from typing import Any

import click

from holdfast.core.clock import iso
from holdfast.core.principal import TIERS, Tier
from holdfast.core.schema import input_schema, output_schema
from holdfast.core.tools.tool import AnyTool
from holdfast.features.clients.documented import DOCUMENTED
from holdfast.surfaces.cli.frame import Session, command
from holdfast.surfaces.cli.mcp_setup import setup
from holdfast.toolboxes import product_tools

group = click.Group("mcp", help="Connect coding agents.")
group.add_command(setup)

_COLUMNS = ("sampling", "elicitation", "roots")


@command(group, "clients", help="Show which clients connected and what they can do, beside what is documented.")
async def clients(session: Session) -> None:
    seen = await session.services.clients.list(session.principal)
    rows: list[dict[str, Any]] = [
        {
            "client": client.name,
            "version": client.version,
            "protocol": client.protocol_version,
            **{name: "yes" if name in client.capabilities else "no" for name in _COLUMNS},
            "last_seen_at": iso(client.last_seen_at),
            "source": "declared here",
        }
        for client in seen
    ]
    rows += [
        {
            "client": known.title,
            "version": "",
            "protocol": "",
            "tools": known.tools,
            "prompts": known.prompts,
            "resources": known.resources,
            **{name: getattr(known, name) for name in _COLUMNS},
            "last_seen_at": "",
            "source": "documented",
        }
        for known in DOCUMENTED
    ]
    columns = ["client", "version", "protocol", "tools", "prompts", "resources", *_COLUMNS, "last_seen_at", "source"]
    session.out.table(rows, columns)


@command(
    group,
    "tools",
    click.option("--tier", type=click.Choice(TIERS), default="all", help="Only what a key of this tier sees."),
    click.option("--markdown", is_flag=True, help="Print the page of the documentation."),
    help="List the tools that agents get.",
)
async def tools(session: Session, tier: Tier, markdown: bool) -> None:
    found = [tool for tool in product_tools(session.services) if tool.within(tier)]
    if markdown:
        click.echo(tools_page(found), nl=False)
        return
    session.out.table([_row(tool) for tool in found], ["name", "tier", "title", "writes"])


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


def tools_page(found: list[AnyTool]) -> str:
    """docs/tools.md: every tool as its definition has it."""
    lines = [
        "# Tools",
        "",
        "Generated from the tools themselves by `holdfast mcp tools --markdown`; a test keeps this page as it says.",
        "A key's tier decides which of these it sees: `core` is in every tier, `intel` in `intel` and `all`.",
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
