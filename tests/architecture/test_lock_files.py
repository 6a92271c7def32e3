"""The lock files hold every dependency that pyproject.toml names."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _names(requirements: list[str]) -> set[str]:
    return {_plain(re.split(r"[\s\[<>=!~;@]", requirement, maxsplit=1)[0]) for requirement in requirements}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _locked(file: str) -> set[str]:
    return {_plain(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", (ROOT / file).read_text(), re.MULTILINE)}


def test_everything_that_is_needed_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = project["project"]["dependencies"] + project["dependency-groups"]["build"]
    assert _names(needed) <= _locked("requirements.lock"), "run: make lock"
    assert _names(needed + project["dependency-groups"]["dev"]) <= _locked("requirements-dev.lock"), "run: make lock"


def test_every_locked_package_carries_hashes() -> None:
    for file in ("requirements.lock", "requirements-dev.lock", "tests/mcp1.lock", "scripts/uv.lock"):
        packages = re.findall(r"^\S+==.*\n(.*)", (ROOT / file).read_text(), re.MULTILINE)
        assert packages and all("--hash=sha256:" in following for following in packages)
