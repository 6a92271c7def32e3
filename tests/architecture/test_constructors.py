"""Every optional collaborator of a constructor is passed by production somewhere: what only tests pass is not wired."""

import ast
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

SRC = Path(__file__).resolve().parents[2] / "src" / "holdfast"


@dataclass(frozen=True)
class Optional:
    """A constructor's argument that may be left out, and where it stands."""

    owner: str
    name: str
    place: int | None


def _bounds(argument: ast.arg) -> bool:
    """Whether it is limits, which production takes as they are."""
    return argument.annotation is not None and "Limits" in ast.unparse(argument.annotation)


def _is_nothing(default: ast.expr | None) -> bool:
    """Whether a default stands for nobody: limits and clocks have defaults that production means."""
    empty = isinstance(default, (ast.Tuple, ast.List)) and not default.elts
    return empty or (isinstance(default, ast.Dict) and not default.keys) or ast.dump(default or ast.Pass()) == _NONE


_NONE = ast.dump(ast.Constant(None))


def _optional(tree: ast.Module) -> list[Optional]:
    found = []
    for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for init in (node for node in owner.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"):
            places = [each.arg for each in init.args.args][1:]
            defaults = dict(zip(reversed(places), reversed(init.args.defaults), strict=False))
            named = {
                each.arg: default for each, default in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True)
            }
            limits = {each.arg for each in (*init.args.args, *init.args.kwonlyargs) if _bounds(each)}
            for name, default in {**defaults, **named}.items():
                if _is_nothing(default) and name not in limits:
                    found.append(Optional(owner.name, name, places.index(name) if name in places else None))
    return found


def _passed(trees: list[ast.Module]) -> dict[str, set[str | int]]:
    """What the calls of each name pass: keywords, and how many places; `*` for what cannot be seen."""
    passed: dict[str, set[str | int]] = defaultdict(set)
    for call in (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        passed[name] |= {keyword.arg or "*" for keyword in call.keywords}
        passed[name] |= {"*"} if any(isinstance(each, ast.Starred) for each in call.args) else set()
        passed[name] |= set(range(len(call.args)))
    return passed


def test_no_constructor_takes_what_only_tests_pass() -> None:
    trees = [ast.parse(path.read_text()) for path in SRC.rglob("*.py")]
    passed = _passed(trees)
    bases = {
        getattr(base, "id", "")
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for base in node.bases
    }
    unwired = [
        f"{each.owner}({each.name}=)"
        for tree in trees
        for each in _optional(tree)
        if each.owner not in bases and not passed[each.owner] & {"*", each.name, each.place}
    ]
    assert not unwired, f"wire it, or delete it: {', '.join(unwired)}"
