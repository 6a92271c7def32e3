"""What repositories add to the server: memory of their history, files and discussions."""

from holdfast.core.access import READ
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Topic

FEATURE = Feature(
    name="repositories",
    commands={
        "repos": ("commands.repos:repos", "Repositories: their history, remembered and asked."),
    },
    operations=("operations.repositories", "operations.finding", "operations.files"),
    uses_secrets=True,
    services=(
        "HostItems",
        "LiveFiles",
        "Polling",
        "Repositories",
        "RepositoryFinding",
        "RepositorySync",
        "RepositoryTokens",
        "Webhooks",
    ),
    jobs=("repository.sync", "repository.poll"),
    entities=True,
    names_things=True,
    topics={"repository": Topic(READ)},
    migrations=("0017_repositories",),
    contract=("KS-2", "KS-4", "KS-5"),
)
