"""What is done with texts everywhere: names, JSON, schemas, secrets that must not show."""
