"""What workspaces add to the server."""

from holdfast.registry.feature import Feature

FEATURE = Feature(
    name="workspaces",
    commands={
        "workspaces": ("commands:workspaces", "Workspaces."),
    },
    operations=("operations",),
    services=("Workspaces",),
    answers=("Administered", "WorkspaceIds"),
    tools=True,
    contract=("XM-2", "XM-5"),
)
