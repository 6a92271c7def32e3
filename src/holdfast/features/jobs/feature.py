"""What looking at background jobs adds to the server."""

from holdfast.core.access import READ
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Topic

FEATURE = Feature(name="jobs", operations=("operations",), services=("JobService",), topics={"job": Topic(READ)})
