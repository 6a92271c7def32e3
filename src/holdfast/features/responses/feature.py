"""What OpenAI's Responses add to the server: stored answers, also in the background."""

from holdfast.registry.feature import Feature

FEATURE = Feature(name="responses", services=("ResponseService",), jobs=("response",), migrations=("0015_responses",))
