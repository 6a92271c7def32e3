"""What secrets add to the server."""

from holdfast.registry.feature import Feature

FEATURE = Feature(
    name="secrets",
    commands={
        "secrets": ("commands:secrets", "Secrets: API keys and the like, never shown again."),
    },
    operations=("operations",),
    background_once=("SecretValues",),
    services=("References", "SecretStores", "SecretValues", "Secrets"),
    migrations=("0011_secrets", "0022_secret_hosts", "0063_secrets_in_clusters"),
    contract=("XA-10",),
)
