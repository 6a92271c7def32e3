"""What connected MCP clients add to the server: their sessions, on any replica."""

from holdfast.registry.feature import Feature

FEATURE = Feature(
    name="clients",
    commands={
        "mcp": ("commands:mcp", "Connect coding agents."),
    },
    operations=("operations",),
    services=("Clients",),
    migrations=("0010_mcp", "0055_list_indexes"),
    contract=("XM-1", "XM-3", "XM-18", "XM-22"),
)
