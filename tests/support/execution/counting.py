"""Owns the counting server as an entry of a catalog, and what it counted."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.principal import Principal
from holdfast.features.catalog import store
from holdfast.features.catalog.model import NewEntry, PinnedTool, Policy, Probed, ToolChange, ToolDescription
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.pins import digest_of
from holdfast.features.catalog.service import ServerCatalog
from tests.fakes.mcp.counting import TOOLS
from tests.support.services import Services

PROGRAM = Path(__file__).resolve().parents[2] / "fakes" / "mcp" / "counting.py"


@contextmanager
def in_a_place_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The program where a container can have a directory of the same name; a checkout may be below `/work`."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="holdfast-server-") as directory:
        copy = Path(directory, PROGRAM.name)
        shutil.copy(PROGRAM, copy)
        with monkeypatch.context() as patched:
            patched.setattr(sys.modules[__name__], "PROGRAM", copy)
            yield


def counting(name: str = "demo", **env: str) -> NewEntry:
    """The entry."""
    return NewEntry(name=name, shape="command", command="/usr/bin/python3", args=(str(PROGRAM),), env=env)


async def enrolled(
    services: Services,
    owner: Principal,
    workspace_id: str,
    name: str = "demo",
    *,
    policies: Mapping[str, Policy] = {},
    **env: str,
) -> Probed:
    """Register the server, probe it, and set policies."""
    await services[ServerCatalog].register(owner, workspace_id, counting(name, **env))
    probed = await services[ToolPins].probe(owner, workspace_id, name)
    for tool, policy in policies.items():
        await services[ToolPins].set(owner, workspace_id, name, tool, ToolChange(policy=policy))
    return probed


async def pinned(services: Services, owner: Principal, workspace_id: str, name: str = "demo") -> None:
    """Register the server with its tools pinned as a probe would, without starting it."""
    entry = await services[ServerCatalog].register(owner, workspace_id, counting(name))
    for position, tool in enumerate(TOOLS):
        described = ToolDescription(
            tool["name"], None, tool["description"], tool["inputSchema"], None, tool.get("annotations", {})
        )
        pin = PinnedTool(server_id=entry.id, server=name, pinned=described, digest=digest_of(described), state="active")
        await services.database.write(
            lambda tx, pin=pin, position=position: store.put_tool(tx, pin, position=position, now=entry.created_at)  # type: ignore[misc]
        )


async def changed(services: Services, owner: Principal, workspace_id: str, name: str = "demo", **env: str) -> Probed:
    """Start the server with another environment, in which it describes its tools otherwise, and probe it."""
    entry = await services[ServerCatalog].get(owner, workspace_id, name)
    await services[ServerCatalog].change(owner, workspace_id, name, replace(entry.spec, env=env))
    return await services[ToolPins].probe(owner, workspace_id, name)
