"""What the audit log adds to the server."""

from holdfast.core.access import Access
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Topic

FEATURE = Feature(
    name="audit",
    commands={
        "audit": ("commands:audit", "The audit log."),
    },
    operations=("operations",),
    services=("Audit",),
    background=("Audit",),
    topics={"audit": Topic(Access("organization", "management", role="admin"))},
    migrations=("0002_audit", "0019_audit_marks"),
)
