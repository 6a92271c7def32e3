"""Programs that we run for somebody, in a sandbox that keeps them from everything they were not given."""
