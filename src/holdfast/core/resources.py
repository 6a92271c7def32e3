"""Owns the addresses under which agents read what a workspace knows."""

from urllib.parse import quote

BRIEF = "xerotier://workspace/current/brief"
DECISIONS = "xerotier://workspace/current/recent-decisions"
MEMORY = "xerotier://memory/"
ARTIFACT = "xerotier://artifact/"


def memory_uri(slug: str) -> str:
    """The address of a memory."""
    return MEMORY + quote(slug, safe="")


def artifact_uri(artifact_id: str) -> str:
    """The address of an artifact."""
    return ARTIFACT + quote(artifact_id, safe="")
