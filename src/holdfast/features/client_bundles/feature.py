"""What connecting a coding agent adds to the server: the files that it needs, with a key in them."""

from holdfast.registry.feature import Feature

FEATURE = Feature(name="client_bundles", operations=("operations",), services=("ClientBundles",))
