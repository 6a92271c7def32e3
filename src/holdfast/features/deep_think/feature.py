"""What Deep Think adds to the server: long research turns with a report."""

from holdfast.registry.feature import Feature

FEATURE = Feature(name="deep_think", answers=("DeepThinking",), migrations=("0014_deep_think",), contract=("XS-6",))
