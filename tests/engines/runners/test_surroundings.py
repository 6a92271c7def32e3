"""What every agent finds around it: git that works in a directory of somebody else's, as a pod's volumes are."""

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.engines.runners.surroundings import surroundings


def test_an_agents_git_trusts_a_directory_that_belongs_to_somebody_else(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving a directory away takes root")
    work = tmp_path / "work"
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", **surroundings(str(tmp_path))}
    subprocess.run(["git", "init", "-q", str(work)], env=env, check=True)
    for path in (work, work / ".git"):
        os.chown(path, 12345, 12345)
    (work / "file").write_text("x")
    for words in (("add", "-A"), ("commit", "-qm", "Make a file")):
        subprocess.run(["git", *words], cwd=work, env=env, check=True)
