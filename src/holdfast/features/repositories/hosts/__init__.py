"""What a repository's host knows of it: items and webhooks."""
