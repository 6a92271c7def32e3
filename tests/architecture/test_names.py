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


# They sum up several things, or lay two tables beside each other; REST has no answer of that shape.
SUMMARIES = {"audit/commands.py", "client_bundles/commands.py", "clients/commands.py"}


def test_commands_show_what_rest_shows() -> None:
    """A command that copies a thing's attributes into a dictionary gives its fields names of their own."""
    features = SOURCE / "features"
    copied = [
        f"{name}:{node.lineno}"
        for path in sorted(features.rglob("*.py"))
        if "/commands" in (name := f"/{path.relative_to(features).as_posix()}") and name[1:] not in SUMMARIES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Dict) and sum(isinstance(value, ast.Attribute) for value in node.values) > 3
    ]
    assert not copied, f"show the model that REST answers with: {copied}"
