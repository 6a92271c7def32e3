"""Pages of governed execution: calls of tools, and who may make them unasked."""
