"""What endpoints add to the server: which model answers, and where."""

from holdfast.core.access import Access
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Topic

FEATURE = Feature(
    name="endpoints",
    commands={
        "endpoints": ("commands:endpoints", "Which model answers chat, and where."),
    },
    uses_secrets=True,
    operations=("operations",),
    services=("EndpointModels", "Endpoints"),
    closes=("EndpointModels",),
    topics={"endpoint": Topic(Access("project", ("read", "inference")))},
    migrations=("0012_endpoints",),
    contract=("XA-12", "XS-1"),
)
