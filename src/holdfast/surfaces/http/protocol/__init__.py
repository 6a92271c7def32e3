"""Bytes of a connection before they are a request."""
