"""Owns reading what an installed package says of itself to people."""

from importlib.metadata import distributions
from pathlib import Path

from holdfast.engines.runtime.packages import InstalledPackage

MAX_CHARACTERS = 200_000


def readme_of(package: InstalledPackage) -> str:
    """The package's README; empty where it has none."""
    if package.ecosystem == "pypi":
        return _described(package)
    folder = package.directory / "node_modules" / package.name
    for path in sorted(folder.glob("[Rr][Ee][Aa][Dd][Mm][Ee]*")):
        # A link would lead out of the package, to files of ours.
        if path.is_file() and not path.is_symlink():
            return _text(path)
    return ""


def _described(package: InstalledPackage) -> str:
    for found in distributions(path=[str(package.directory / "site")]):
        if found.name == package.name:
            return str(found.metadata.json.get("description") or "")[:MAX_CHARACTERS]
    return ""


def _text(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(MAX_CHARACTERS)
