"""Searching the web through whichever back end the operator configured."""
