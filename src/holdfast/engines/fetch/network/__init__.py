"""Addresses, connections and requests that leave this machine."""
