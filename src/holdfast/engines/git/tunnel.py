"""Owns the only way out for a process that clones."""

from dataclasses import dataclass

from holdfast.engines.fetch.connect import Resolver


@dataclass(frozen=True, slots=True)
class Rules:
    """Which places may be reached: the public internet, and what the operator allows besides."""

    allow_private: tuple[str, ...] = ()
    resolver: Resolver | None = None
