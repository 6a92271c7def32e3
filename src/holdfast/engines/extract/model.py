"""Owns what reading a file gives, what it may cost, and how it fails."""

from dataclasses import dataclass

from holdfast.core.errors import HoldfastError


@dataclass(frozen=True, slots=True)
class ExtractLimits:
    """What one extraction may use before it is ended."""

    memory_bytes: int = 1024 * 1024 * 1024
    cpu_seconds: int = 60
    wall_seconds: float = 60.0
    characters: int = 32_000_000
    """Text beyond this is left out, and the result says so."""
    chunks: int = 20_000
    unpacked_bytes: int = 256 * 1024 * 1024
    """The most that an archive's parts may unpack to, together."""
    entries: int = 10_000
    pages: int = 5_000


@dataclass(frozen=True, slots=True)
class Summary:
    """What was read in all."""

    title: str
    chunks: int
    characters: int
    truncated: bool


class ExtractionFailed(HoldfastError):
    """The file cannot be read, and trying again will not help; the message says why."""

    code = "extraction_failed"
    status = 422
