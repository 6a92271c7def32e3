"""What runs in the child process that reads a repository."""
