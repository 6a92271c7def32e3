"""What a workspace's knowledge, written for reading, adds to the server: prompts and resources show it."""

from holdfast.registry.feature import Feature

FEATURE = Feature(name="knowledge", services=("WorkspaceKnowledge",), contract=("XM-16", "XM-17"))
