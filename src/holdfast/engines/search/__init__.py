"""Hybrid search over everything a workspace knows."""

from holdfast.engines.search.engine import SearchEngine
from holdfast.engines.search.keeper import EmbeddingProgress, embedded_text
from holdfast.engines.search.model import Entry, Hit, Query

__all__ = ["EmbeddingProgress", "Entry", "Hit", "Query", "SearchEngine", "embedded_text"]
