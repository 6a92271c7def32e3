"""What asking about repositories adds to the server."""

from holdfast.registry.feature import Feature

FEATURE = Feature(
    name="ask",
    commands={
        "repos": ("commands:repos", ""),
    },
    operations=("operations",),
    tools=True,
    aliases=True,
    services=("Ask",),
    contract=("KS-1", "KS-3"),
)
