"""How an entry is installed, started and reached."""
