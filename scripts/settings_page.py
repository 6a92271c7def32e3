"""Owns docs/settings.md: writes it from the table of settings in the code, so that the two never differ."""

import sys
from pathlib import Path

from holdfast.core.settings import rows

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
OPENING = """# Settings

Every setting has a default, so none is needed to start. Set one in the environment by the name in the first column, or
in a TOML file (named by `HOLDFAST_CONFIG`) by the name in the second. An unknown or malformed setting stops the start
and the message says which.
`holdfast settings` prints this table with the values in force. This page is written by `scripts/settings_page.py`.

| environment | file | default | what it does |
|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    lines = []
    for row in rows():
        default = f"`{row.default}`" if row.default else ""
        secret = " Kept secret: never printed." if row.secret else ""
        lines.append(f"| `{row.env}` | `{row.name}` | {default} | {row.help.replace('|', chr(92) + '|')}.{secret} |")
    return OPENING + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"wrote {PAGE}\n")
