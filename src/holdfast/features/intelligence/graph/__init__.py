"""Relations and the graph that they make."""
