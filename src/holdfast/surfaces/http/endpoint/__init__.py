"""What both wires of an endpoint share: an admitted request, relaying bytes, and waiting for events."""
