"""Owns the counting server as an entry of a catalog, and what it counted."""

from pathlib import Path
from typing import Any

from holdfast.core.principal import Principal
from holdfast.features.catalog.model import CatalogEntry, NewEntry, Probed, ToolChange
from holdfast.features.catalog.pinning import ToolPins
from holdfast.features.catalog.service import ServerCatalog
from holdfast.features.catalog.model import Policy
from tests.support.services import Services

PROGRAM = Path(__file__).resolve().parents[2] / "fakes" / "mcp" / "counting.py"


def counting(name: str = "demo", **env: str) -> NewEntry:
    """The entry."""
    return NewEntry(name=name, shape="command", command="/usr/bin/python3", args=(str(PROGRAM),), env=env)


async def enrolled(
    services: Services, owner: Principal, workspace_id: str, name: str = "demo", *, policies: dict[str, Policy] = {}, **env: str
) -> Probed:
    """Register the server, probe it, and set policies."""
    await services[ServerCatalog].register(owner, workspace_id, counting(name, **env))
    probed = await services[ToolPins].probe(owner, workspace_id, name)
    for tool, policy in policies.items():
        await services[ToolPins].set(owner, workspace_id, name, tool, ToolChange(policy=policy))
    return probed


def runs(folder: Path) -> list[str]:
    """What the server noted, a line for each run."""
    found = folder / "runs"
    return found.read_text().splitlines() if found.exists() else []


__all__ = ["PROGRAM", "CatalogEntry", "counting", "enrolled", "runs"]
Json = dict[str, Any]
