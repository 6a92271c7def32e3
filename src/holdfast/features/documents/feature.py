"""What documents and vector stores add to the server."""

from holdfast.core.access import READ
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Topic

FEATURE = Feature(
    name="documents",
    commands={
        "docs": ("commands:docs", "Documents."),
    },
    tools=True,
    aliases=True,
    operations=("operations", "vector_stores.operations", "vector_stores.batch_operations"),
    services=("DocumentService", "Ingestion", "VectorStoreService", "FileBatches"),
    jobs=("document.ingest",),
    entities=True,
    topics={"document": Topic(READ)},
    migrations=("0007_documents", "0029_file_batches"),
    contract=("XS-T9",),
)
