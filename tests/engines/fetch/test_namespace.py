"""The attack table where it hurts: in a network namespace in which every forbidden address answers."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.fetch.test_guard import ATTACKS

SCRIPT = Path(__file__).with_name("attack_namespace.py")


def _can_make_namespaces() -> bool:
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    made = subprocess.run(["unshare", "-rn", "ip", "link", "set", "lo", "up"], capture_output=True)
    return made.returncode == 0


@pytest.mark.slow
@pytest.mark.contract("XS-T2")
@pytest.mark.skipif(not _can_make_namespaces(), reason="this machine lets nobody make a network namespace")
def test_no_forbidden_address_is_reached_though_all_of_them_answer() -> None:
    # Backslashes and line breaks can't stand in a Location; the table test covers them.
    attacks = [attack.replace(":{port}", "") for attack in ATTACKS if "\n" not in attack and "\\" not in attack]
    done = subprocess.run(
        ["unshare", "-rn", sys.executable, str(SCRIPT)],
        input=json.dumps(attacks),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["naive"] == ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "127.0.0.1"], "the servers were there"
    assert told["public"] == 200, "the guard does let the public through"
    assert told["reached"] == []
    assert told["allowed"] == []
