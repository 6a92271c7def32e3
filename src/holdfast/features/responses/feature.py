"""What OpenAI's Responses add to the server: stored answers, also in the background."""

from holdfast.registry.feature import Feature

FEATURE = Feature(
    name="responses",
    services=("ResponseService", "ConversationService"),
    jobs=("response",),
    migrations=("0015_responses", "0027_conversations", "0028_response_events"),
)
