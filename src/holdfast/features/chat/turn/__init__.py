"""One turn: its tools, its reminders, its record."""
