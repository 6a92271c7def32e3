"""What is drawn from all of a workspace: brief and analysis."""
