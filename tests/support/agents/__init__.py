"""What tests of agents stand on."""
