"""What import and export add to the server."""

from holdfast.registry.feature import Feature

FEATURE = Feature(
    name="interchange",
    commands={
        "import": ("commands:import_", "Import Markdown, mem0, basic-memory or server-memory files."),
        "export": ("commands:export", "Export a workspace to Markdown."),
    },
    operations=("operations",),
    services=("InterchangeService",),
)
