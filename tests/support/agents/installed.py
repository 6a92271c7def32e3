"""Owns the agents of others as tests have them: those of tests/node, as if an operator had installed them."""

import json
from pathlib import Path

import pytest

from holdfast.engines.runners.base import AgentRunner
from holdfast.engines.runners.installing import PUBLISHED, InstalledAgents
from holdfast.engines.runners.known import KnownRunners
from holdfast.engines.runtime.packages import InstallFailed

NODE_MODULES = Path(__file__).parents[2] / "node" / "node_modules"


def installed_runner(name: str, directory: Path) -> AgentRunner:
    """A runner of somebody else's agent; the test is skipped where that is not there."""
    version = PUBLISHED[name].version
    digest = f"{abs(hash(name)):032x}"
    place = directory / f"npm-{digest}"
    place.mkdir(parents=True)
    (place / "node_modules").symlink_to(NODE_MODULES)
    record = {"ecosystem": "npm", "name": name, "version": version, "integrity": f"sha256-{digest}", "pins": {}}
    (place / "holdfast-package.json").write_text(json.dumps({**record, "command": []}))
    (directory / f"{name}.json").write_text(json.dumps({"version": version, "integrity": f"sha256-{digest}"}))
    try:
        return KnownRunners(InstalledAgents(directory)).get(name)
    except InstallFailed as problem:
        pytest.skip(f"{problem} Run: scripts/setup node")
