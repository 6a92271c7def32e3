"""Owns `holdfast mcp clients`: which clients connected, beside what is documented of them."""

from typing import Any

from holdfast.core.clock import iso
from holdfast.core.commands import Commands, Session
from holdfast.features.clients.documented import DOCUMENTED
from holdfast.features.clients.service import Clients

mcp = Commands("mcp", help="Connect coding agents.")

_COLUMNS = ("sampling", "elicitation", "roots")


@mcp.command("clients", help="Show which clients connected and what they can do, beside what is documented.")
async def clients(session: Session, service: Clients) -> None:
    seen = await service.list(session.principal)
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
