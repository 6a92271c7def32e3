"""What shows that a case is done."""
