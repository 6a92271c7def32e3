"""Repositories: what a project's history knows, kept up to date and found again."""
