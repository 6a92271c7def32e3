"""What synthesis finds, each kind in its module."""
