"""What connecting a coding agent adds to the server: the files that it needs, with a key in them."""

from holdfast.registry.feature import Feature

FEATURE = Feature(
    name="client_bundles",
    commands={
        "mcp": ("commands:mcp", ""),
    },
    operations=("operations",),
    services=("ClientBundles",),
    contract=("XM-20",),
)
