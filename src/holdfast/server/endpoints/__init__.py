"""How endpoints for models are served: in both wires, and in sandboxes."""
