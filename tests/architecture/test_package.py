"""The installed package has everything that the checkout has."""

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_built_package_carries_every_file_and_the_commands(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as package:
        names = set(package.namelist())
        entries = next(package.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    wanted = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "holdfast").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= names, f"not in the package: {sorted(wanted - names)}"
    assert "holdfast = " in entries and "xeroctl = " in entries
    assert any(name.endswith("LICENSE") for name in names)
