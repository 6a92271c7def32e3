"""What connected MCP clients add to the server: their sessions, on any replica."""

from holdfast.registry.feature import Feature

FEATURE = Feature(name="clients", operations=("operations",), services=("Clients",), migrations=("0010_mcp",))
