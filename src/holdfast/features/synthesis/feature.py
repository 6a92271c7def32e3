"""What synthesis adds to the server: knowledge that is derived from repositories."""

from holdfast.registry.feature import Feature

FEATURE = Feature(
    name="synthesis",
    commands={
        "repos": ("commands:repos", ""),
    },
    operations=("operations",),
    services=("Synthesis",),
    jobs=("repository.synthesis",),
    reacts=True,
    migrations=("0018_synthesis",),
    contract=("KS-8",),
)
