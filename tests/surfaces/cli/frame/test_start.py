"""Proves that a command loads and builds what it needs and nothing else: that is what makes it start quickly."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_PROGRAM = """
import json, sys
import holdfast.core.parts as parts_module

made = []
make = parts_module.Parts._make
def noted(self, kind):
    made.append(kind.__name__)
    return make(self, kind)
parts_module.Parts._make = noted

from holdfast.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("\\n" + json.dumps({"modules": sorted(sys.modules), "made": made}))
"""
_NEVER = (
    "aiohttp",
    "anyio",
    "ddgs",
    "httpcore",
    "mcp",
    "onnxruntime",
    "psycopg",
    "pygit2",
    "resiliparse",
    "starlette",
    "tokenizers",
    "tree_sitter",
    "uvicorn",
    "uvloop",
    "yaml",
    "holdfast.engines.code_hosts",
    "holdfast.engines.extract",
    "holdfast.engines.git",
    "holdfast.engines.jobs",
    "holdfast.engines.llm",
    "holdfast.engines.web",
    "holdfast.engines.web_search",
    "holdfast.storage.postgresql",
    "holdfast.surfaces.http",
    "holdfast.surfaces.mcp",
    "holdfast.surfaces.rest",
)
# Of these only `feature.py` is read, which says what they add, and of chats the answer whether one exists.
_UNUSED = (
    "artifacts",
    "ask",
    "chat",
    "client_bundles",
    "clients",
    "deep_think",
    "documents",
    "intelligence",
    "interchange",
    "repositories",
    "responses",
    "server_tools",
    "synthesis",
)


def _ran(data: Path, *words: str) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words, "--data-dir", str(data)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that has been used before: the first start makes an organization, and so needs more."""
    directory = tmp_path_factory.mktemp("used") / "data"
    _ran(directory, "projects", "create", "Used")
    return directory


@pytest.mark.parametrize(("asked", "most"), [("--version", 150), ("--help", 300)])
def test_saying_what_the_command_is_loads_little(asked: str, most: int) -> None:
    # Modules are counted, not seconds: their number is the same on a busy machine.
    ran = subprocess.run([sys.executable, "-c", _PROGRAM, asked], capture_output=True, text=True, check=True)
    assert len(json.loads(ran.stdout.splitlines()[-1])["modules"]) <= most


def test_listing_memories_loads_and_builds_memory_alone(data: Path) -> None:
    ran = _ran(data, "memory", "list")
    loaded = [name for name in ran["modules"] if any(name == each or name.startswith(f"{each}.") for each in _NEVER)]
    assert not loaded
    allowed = {f"holdfast.features.{name}.feature" for name in _UNUSED} | {"holdfast.features.chat.building"}
    # What works beside requests is named by its class, which here is a loop around one statement.
    allowed |= {f"holdfast.features.chat.deleted{name}" for name in ("", ".service", ".store")}
    allowed |= {f"holdfast.features.chat.finding{name}" for name in ("", ".filling")}
    features = [name for name in ran["modules"] if name.startswith(tuple(f"holdfast.features.{x}." for x in _UNUSED))]
    assert set(features) <= allowed
    assert set(ran["made"]) == {
        "Administered",
        "Audit",
        "ChatExists",
        "Embedder",
        "Entities",
        "EventBus",
        "KeyRing",
        "MemoryService",
        "SearchEngine",
        "Workspaces",
    }


def test_listing_keys_builds_neither_search_nor_memory(data: Path) -> None:
    made = _ran(data, "keys", "list")["made"]
    assert "Keys" in made
    assert not {"SearchEngine", "MemoryService", "JobEngine", "WebAccess", "GitEngine"} & set(made)
