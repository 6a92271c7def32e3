"""What findings are made from: files and history, read once."""
