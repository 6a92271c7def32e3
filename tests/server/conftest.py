"""Owns the running server that tests of its composition look into."""

from tests.surfaces.conftest import sqlite_server

__all__ = ["sqlite_server"]
