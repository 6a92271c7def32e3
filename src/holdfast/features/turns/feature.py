"""What turns add to the server: a conversation's next answer, from the model behind an endpoint."""

from holdfast.registry.feature import Feature

FEATURE = Feature(
    name="turns",
    services=("ApprovedTurns", "EndpointTurns"),
    jobs=("chat.resume",),
    background_once=("ApprovedTurns",),
)
