"""Owns docs/settings.md: writes it from the table of settings in the code, so that the two never differ."""

import sys
from pathlib import Path

from holdfast.surfaces.cli.settings import page

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"

__all__ = ["PAGE", "page"]

if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"wrote {PAGE}\n")
