"""What usage and its limits add to the server."""

from holdfast.registry.feature import Feature

FEATURE = Feature(
    name="usage",
    operations=("operations",),
    services=("Limiter", "Usage"),
    background=("Limiter", "Usage"),
    migrations=("0003_usage",),
)
