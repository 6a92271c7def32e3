"""Owns the counting server as an entry of a catalog, and what it counted."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from holdfast.core.principal import Principal
from holdfast.features.catalog.model import NewEntry, Policy, Probed, ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.service import ServerCatalog
from tests.support.services import Services

PROGRAM = Path(__file__).resolve().parents[2] / "fakes" / "mcp" / "counting.py"


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


async def changed(services: Services, owner: Principal, workspace_id: str, name: str = "demo", **env: str) -> Probed:
    """Start the server with another environment, in which it describes its tools otherwise, and probe it."""
    entry = await services[ServerCatalog].get(owner, workspace_id, name)
    await services[ServerCatalog].change(owner, workspace_id, name, replace(entry.spec, env=env))
    return await services[ToolPins].probe(owner, workspace_id, name)
