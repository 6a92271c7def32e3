"""Every place that makes a credential or gives a right asks the one rule, or says here why it need not."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "holdfast"
# What lets somebody in, or says what they may do.
_TABLES = "api_key|membership|web_session|sign_in_link|invitation|workspace_admin|user_account"
_WRITES = re.compile(rf"\b(?:INSERT INTO|UPDATE) (?:{_TABLES})\b")
# These only take away, note a use, or touch an account that opens nothing by itself.
HARMLESS = {
    "identity/keys/store.py:revoke",
    "identity/keys/store.py:touch",
    "identity/sessions/store.py:use_link",
    "identity/people/invitation_store.py:end",
    "identity/people/invitation_store.py:withdraw_all",
    "identity/store.py:insert_user",
    "identity/store.py:set_user_name",
}
REASONS = {
    "identity/service.py:Identity.found": "the first start: there is nobody yet",
    "identity/service.py:Identity.create_organization": "its maker owns what did not exist before",
    "identity/service.py:Identity.set_password": "one's own, with the current one; or the operator",
    "identity/people/invitations.py:Invitations._join": "asked when it was made, and about its maker again here",
    "identity/people/invitations.py:Invitations.join": "an account that nobody can open and that belongs nowhere",
    "identity/sessions/sign_in.py:SignIn._open": "whoever comes here proved who they are",
    "identity/sessions/sign_in.py:SignIn.switch": "to an organization that the person belongs to",
    "identity/sessions/sign_in.py:SignIn.by_subject": "the issuer vouches for the account's own address",
}


def _name(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix().removeprefix("features/")


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Module functions and methods; what is defined inside one belongs to it."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield f"{node.name}.{inner.name}", inner


def _text(function: ast.AST) -> str:
    strings = [
        node.value for node in ast.walk(function) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return " ".join(strings)


@cache
def _modules() -> dict[Path, ast.Module]:
    # Only these can write one of the tables, or use a store that does; reading the others takes seconds.
    texts = {path: path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
    return {path: ast.parse(text) for path, text in texts.items() if re.search(rf"{_TABLES}|store\b", text)}


def _writers(modules: dict[Path, ast.Module]) -> set[str]:
    return {
        f"{_name(path)}:{name}"
        for path, tree in modules.items()
        for name, function in _functions(tree)
        if _WRITES.search(_text(function))
    }


def _store_names(path: Path, tree: ast.Module) -> dict[str, str]:
    """Under which name a module knows each store: `{"store": "identity/store.py"}`."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("holdfast.features."):
            folder = node.module.removeprefix("holdfast.features.")
            for alias in node.names:
                if alias.name.endswith("store"):
                    found[alias.asname or alias.name] = f"{folder.replace('.', '/')}/{alias.name}.py"
    return found


def _reached(modules: dict[Path, ast.Module], guarded: set[str]) -> dict[str, bool]:
    """Every function that uses a guarded writer, and whether it asks the rule."""
    reached = {}
    for path, tree in modules.items():
        stores = _store_names(path, tree)
        if not stores:
            continue
        for name, function in _functions(tree):
            nodes = list(ast.walk(function))
            used = {
                f"{stores[node.value.id]}:{node.attr}"
                for node in nodes
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in stores
            }
            if used & guarded:
                asks = any(isinstance(node, ast.Name) and node.id == "check_hands_out" for node in nodes)
                reached[f"{_name(path)}:{name}"] = asks
    return reached


def test_credentials_are_written_in_stores_only() -> None:
    elsewhere = [each for each in _writers(_modules()) if not re.search(r"store\.py:", each)]
    assert not elsewhere, f"move this SQL into a store: {elsewhere}"


def test_nothing_hands_out_without_asking_the_rule() -> None:
    modules = _modules()
    writers = _writers(modules)
    assert writers >= HARMLESS, "HARMLESS names what is not there"
    assert len(writers - HARMLESS) >= 10
    reached = _reached(modules, writers - HARMLESS)
    silent = {name for name, asks in reached.items() if not asks}
    assert silent == set(REASONS), f"asks nobody: {silent - set(REASONS)}; reason without use: {set(REASONS) - silent}"
    assert {
        "identity/keys/api_keys.py:Keys.mint",
        "identity/keys/api_keys.py:Keys.update",
        "workspaces/service.py:Workspaces.set_admin",
    } <= {name for name, asks in reached.items() if asks}
