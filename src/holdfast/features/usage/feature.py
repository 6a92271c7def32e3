"""What usage and its limits add to the server."""

from holdfast.core.access import Access
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Topic

FEATURE = Feature(
    name="usage",
    commands={
        "usage": ("commands:usage", "What was used, by key, project, person and week."),
    },
    operations=("operations",),
    services=("Limiter", "Usage"),
    background=("Limiter", "Usage"),
    topics={"usage": Topic(Access("project", ("read", "inference")))},
    migrations=("0003_usage", "0024_limit_call"),
    contract=("KS-6", "KS-7"),
)
