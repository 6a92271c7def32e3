"""What workspaces add to the server."""

from holdfast.registry.feature import Feature

FEATURE = Feature(
    name="workspaces",
    operations=("operations",),
    services=("Workspaces",),
    answers=("Administered", "MissingWorkspace"),
    tools=True,
)
