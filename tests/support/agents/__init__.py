"""What tests of agents have in common."""
