"""One class name has one meaning in all of src."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "holdfast"
# Each is named after its tool, or mirrors what it is made from; renaming would change what clients see.
WIRE = {
    "FetchInput",
    "ListInput",
    "ListOutput",
    "ReadInput",
    "ReadOutput",
    "SearchInput",
    "WebSearchInput",
}


def _classes() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            # What a command is given is named within its module: `Add`, `One`.
            is_input = "/commands" in name
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not is_input:
                found[node.name].append(name)
    return {name: places for name, places in found.items() if len(places) > 1}


def test_no_public_class_name_has_two_meanings() -> None:
    twice = {name: places for name, places in _classes().items() if name not in WIRE}
    assert not twice, f"give each its own plain name: {twice}"


def test_the_exceptions_are_still_needed() -> None:
    assert set(_classes()) >= WIRE
