"""What import and export add to the server."""

from holdfast.registry.feature import Feature

FEATURE = Feature(name="interchange", operations=("operations",), services=("InterchangeService",))
