"""The formats that are read and written."""
