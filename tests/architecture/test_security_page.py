"""docs/security.md names the test behind each defence: what it names must exist."""

import itertools
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
NAMED = re.compile(r"`([\w/.{},*-]*\.(?:py|sql))`")


def spelled_out(name: str) -> list[str]:
    """`a_{b,c}.py` as a_b.py and a_c.py."""
    parts = [part.split(",") if index % 2 else [part] for index, part in enumerate(re.split(r"[{}]", name))]
    return ["".join(choice) for choice in itertools.product(*parts)]


def sources(top: Path) -> list[Path]:
    """Our own files below a folder."""
    return [path for path in top.rglob("*.*") if "node_modules" not in path.parts]


def test_every_file_that_the_page_names_exists() -> None:
    named = [name for found in NAMED.findall(PAGE) for name in spelled_out(found)]
    files = [f"/{path.relative_to(ROOT)}" for top in ("src", "tests", "bench") for path in sources(ROOT / top)]
    missing = [name for name in named if not any(file.endswith(f"/{name}") for file in files)]
    assert named and not missing


def test_every_defence_has_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and line.count(" | ") == 2]
    tables = [row for row in rows if "| where |" not in row and "| may |" not in row]
    defences = [row for row in tables if row not in who_is_trusted()]
    assert len(defences) > 30
    for row in defences:
        assert "test" in row.rsplit(" | ", 1)[1] or "matrices" in row, row


def who_is_trusted() -> list[str]:
    """The rows of the page's first table, which lists people and no defences."""
    section = PAGE.split("## Who is trusted with what")[1].split("\n## ")[0]
    return section.splitlines()
