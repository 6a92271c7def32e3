"""Commands that run tools and decide about calls."""
