"""Memory stores beside Holdfast, each in a process of its own that is told what to do line by line."""
