"""Tools run in one place: who adds a second way to run one finds it here."""

import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "holdfast"


def _files_with(pattern: str) -> set[str]:
    return {
        path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if re.search(pattern, path.read_text())
    }


def test_only_the_gateway_calls_the_handler_of_a_tool() -> None:
    assert _files_with(r"tool\.handler\(") == {"core/tools/gateway.py"}


def test_only_the_gateways_tools_become_tools_of_the_loop() -> None:
    assert _files_with(r"\bLoopTool\(") == {"engines/llm/offered.py"}
