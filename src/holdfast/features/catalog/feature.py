"""What the catalog adds to the server: MCP servers that a workspace may run, and their tools as pinned."""

from holdfast.core.access import READ_EXEC
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Changed, Topic

FEATURE = Feature(
    name="catalog",
    commands={
        "catalog": ("commands:catalog", "MCP servers that agents may use."),
    },
    operations=("operations",),
    services=(
        "Images",
        "Installations",
        "KeptLogins",
        "Packages",
        "PublicAddress",
        "RemoteClients",
        "RemoteLogins",
        "ServerCatalog",
        "ServerConnections",
        "ServerDetails",
        "ServerStarts",
        "ServerStates",
        "SnippetImport",
        "StateSweep",
        "ToolPins",
    ),
    jobs=("catalog.install",),
    background_once=("StateSweep",),
    closes=("ServerConnections",),
    uses_secrets=True,
    seals=True,
    topics={"catalog": Topic(READ_EXEC, lambda event: Changed(lists=("tools",)))},
    migrations=("0035_catalog", "0037_remote_logins", "0051_remote_clients", "0056_login_renewals"),
    contract=("XA-2", "XA-4", "XA-8"),
)
