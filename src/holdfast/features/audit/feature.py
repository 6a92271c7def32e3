"""What the audit log adds to the server."""

from holdfast.registry.feature import Feature

FEATURE = Feature(
    name="audit",
    commands={
        "audit": ("commands:audit", "The audit log."),
    },
    operations=("operations",),
    services=("Audit",),
    background=("Audit",),
    migrations=("0002_audit", "0019_audit_marks"),
)
