"""Owns the commands that README and docs show: those in blocks, as a person would paste them, and those in the text."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")))
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BEGINS = re.compile(r"(\.venv/bin/)?holdfast |xeroctl |make |curl |printf |export |git |pip |scripts/")
_INLINE = re.compile(r"`((?:\.venv/bin/)?holdfast [a-z][^`\n]*)`")


@dataclass(frozen=True, slots=True)
class Shown:
    """A command and the page that shows it."""

    page: str
    command: str


def in_blocks() -> list[Shown]:
    """Every command in a block of shell, whole where it goes over several lines, without remarks."""
    found = []
    for page in PAGES:
        for language, text in _BLOCK.findall((ROOT / page).read_text()):
            commands = _commands(text) if language in ("sh", "bash", "") else []
            # A block without a language may be anything; it is a shell's where it begins like one.
            if language or (commands and all(_BEGINS.match(each) for each in commands)):
                found += [Shown(page, each) for each in commands]
    return found


def in_text() -> list[Shown]:
    """Commands that sentences name."""
    return [Shown(page, each) for page in PAGES for each in _INLINE.findall((ROOT / page).read_text())]


def _commands(block: str) -> list[str]:
    found: list[str] = []
    pending = ""
    for line in block.splitlines():
        pending = f"{pending}\n{line}" if pending else line
        if not pending.strip() or (not pending.startswith(" ") and pending.lstrip().startswith("#")):
            pending = ""
        elif not pending.endswith("\\") and pending.count("'") % 2 == 0 and pending.count('"') % 2 == 0:
            found.append(re.sub(r"\s+#\s[^'\"]*$", "", pending))
            pending = ""
    return found
