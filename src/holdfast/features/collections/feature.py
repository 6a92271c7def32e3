"""What collections add to the server: records, their edges, and vectors, in named collections."""

from holdfast.core.access import READ
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Topic

FEATURE = Feature(
    name="collections",
    services=("GraphRecords", "VectorCollections"),
    entities=True,
    operations=("operations",),
    topics={"record": Topic(READ)},
    migrations=("0044_collections", "0060_vectors_of_sessions"),
)
