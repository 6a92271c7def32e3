"""Reading code on GitHub and GitLab."""
