"""What people, projects and keys add to the server."""

from holdfast.core.access import READ
from holdfast.registry.feature import Feature
from holdfast.registry.topics import Topic

FEATURE = Feature(
    name="identity",
    commands={
        "keys": ("commands.keys:keys", "API keys."),
        "projects": ("commands.projects:projects", "Projects."),
        "organizations": ("commands.people:organizations", "Organizations on this server."),
        "users": ("commands.people:users", "People of the organization."),
    },
    operations=(
        "operations.organizations",
        "operations.users",
        "operations.invitations",
        "operations.sessions",
        "operations.keys",
    ),
    services=("Identity", "IdempotentRequests", "Invitations", "Keys", "OwnPassword", "SignIn", "Tokens"),
    answers=("Spenders",),
    background=("Keys",),
    topics={"key": Topic(READ)},
    migrations=("0001_identity", "0021_invitations"),
    contract=("XM-10", "XM-19"),
)
