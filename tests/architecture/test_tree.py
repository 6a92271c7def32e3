"""The tree keeps its shape: imports point down, files stay small, nothing names a package registry."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 450
MOST_FILES = 15
# Written in pieces, so that this file does not name one either.
REGISTRIES = [
    "pypi" + ".org",
    "python" + "hosted.org",
    "npm" + "js.org",
    "npm" + "js.com",
    "deb.debian" + ".org",
    "conda" + ".anaconda.org",
]
IGNORED = {".git", ".venv", ".cache", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", ".hypothesis"}


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True)
    if listed.returncode == 0 and listed.stdout:
        return [path for name in listed.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and not IGNORED & set(path.relative_to(ROOT).parts)]


def _sources(top: str) -> list[Path]:
    """Our own Python files below a folder."""
    return [path for path in (ROOT / top).rglob("*.py") if "node_modules" not in path.parts]


def test_imports_point_down() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "0 broken" in done.stdout, done.stdout + done.stderr


def test_no_file_is_long() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for top in ("src", "tests")
        for path in _sources(top)
        if (lines := len(path.read_text().splitlines())) > MOST_LINES
    }
    assert not long, f"over {MOST_LINES} lines: {long}"


def test_no_folder_holds_many_files() -> None:
    files = Counter(str(path.parent.relative_to(ROOT)) for top in ("src", "tests") for path in _sources(top))
    many = {folder: count for folder, count in files.items() if count > MOST_FILES}
    assert not many, f"over {MOST_FILES} Python files; split by noun: {many}"


def test_every_module_says_what_it_owns() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in _sources("src")
        if path.read_text().strip() and not path.read_text().lstrip().startswith('"""')
    ]
    assert not silent, f"without an opening sentence: {silent}"


def test_no_file_names_a_package_registry() -> None:
    pattern = re.compile("|".join(map(re.escape, REGISTRIES)).encode(), re.IGNORECASE)
    naming = [str(path.relative_to(ROOT)) for path in _tracked() if pattern.search(path.read_bytes())]
    assert not naming, f"these name a registry host; let the machine's own configuration choose it: {naming}"


def test_the_commands_are_executable() -> None:
    for name in ("scripts/setup", "scripts/lock", "scripts/check", "scripts/test", ".ci/run"):
        assert (ROOT / name).stat().st_mode & 0o111, f"{name} is not executable"
