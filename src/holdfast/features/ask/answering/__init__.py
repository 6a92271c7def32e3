"""Making an answer: with a model or from passages, and checking what it cites."""
