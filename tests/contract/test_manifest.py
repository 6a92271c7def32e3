"""Every row of the contract is proved by a marked test or announced for later, and every mark names a row."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.contract.later import LATER
from tests.contract.rows import ROWS

TESTS = Path(__file__).resolve().parents[1]
CONTRACT = TESTS.parents[1] / "shared" / "CONTRACT.md"
_ROW = re.compile(r"^\| ((?:XM|XS|KS|ZE|XA)-T?\d+) \|", re.MULTILINE)


def _marked_ids(path: Path) -> list[str]:
    """The ids given to `pytest.mark.contract` anywhere in a file, read without running it."""
    found = []
    text = path.read_text()
    if "contract" not in text:
        return []
    for node in ast.walk(ast.parse(text, str(path))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "contract":
            found += [
                word.value for word in node.args if isinstance(word, ast.Constant) and isinstance(word.value, str)
            ]
    return found


@cache
def _proofs() -> dict[str, set[str]]:
    proofs: dict[str, set[str]] = defaultdict(set)
    folders = [folder for folder in TESTS.iterdir() if folder.is_dir() and folder.name != "node"]
    for path in sorted(path for folder in folders for path in folder.rglob("test_*.py")):
        for row in _marked_ids(path):
            proofs[row].add(str(path.relative_to(TESTS)))
    return proofs


def test_the_list_of_rows_is_the_contracts() -> None:
    if not CONTRACT.exists():
        pytest.skip(f"The contract is not beside this checkout ({CONTRACT}); the checked-in list of rows is used.")
    assert frozenset(_ROW.findall(CONTRACT.read_text())) == ROWS


def test_every_mark_names_a_row_of_the_contract() -> None:
    unknown = {row: sorted(files) for row, files in _proofs().items() if row not in ROWS}
    assert not unknown, f"no such row: {unknown}"


def test_what_is_announced_for_later_is_in_the_contract() -> None:
    assert set(LATER) <= ROWS


def test_every_row_is_proved_or_announced_for_later() -> None:
    missing = sorted(ROWS - set(LATER) - set(_proofs()))
    assert not missing, f'without a test marked `@pytest.mark.contract("ID")`: {missing}'
