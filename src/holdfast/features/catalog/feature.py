"""What the catalog adds to the server: MCP servers that a workspace may run, and their tools as pinned."""

from holdfast.core.access import Access
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Changed, Topic

_LOOK = Access("workspace", ("read", "inference", "management"), tier="exec")

FEATURE = Feature(
    name="catalog",
    commands={
        "catalog": ("commands:catalog", "MCP servers that agents may use."),
    },
    operations=("operations",),
    services=(
        "Images",
        "Installations",
        "Packages",
        "ServerCatalog",
        "ServerConnections",
        "ServerStarts",
        "SnippetImport",
        "ToolPins",
    ),
    jobs=("catalog.install",),
    closes=("ServerConnections",),
    uses_secrets=True,
    topics={
        "mcp_server": Topic(_LOOK, lambda event: Changed(lists=("tools",))),
        "mcp_tool": Topic(_LOOK, lambda event: Changed(lists=("tools",))),
    },
    migrations=("0035_catalog",),
    contract=("XA-2", "XA-4"),
)
