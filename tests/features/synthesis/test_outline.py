"""Owns the proof of what source files say of themselves, and of what their imports mean."""

import pytest

from holdfast.features.repositories.model import KnownFile
from holdfast.features.synthesis.sources.components import Components, own
from holdfast.features.synthesis.sources.imports import ImportMap, dependencies
from holdfast.features.synthesis.sources.manifests import parse_manifest
from holdfast.features.synthesis.sources.outline import from_json, outline

PYTHON = '''"""Owns the ledger: what was paid. More text."""

import json, os.path
from . import money
from ..core.clock import Clock
from shop.core import (
    errors,
)


class Ledger(Base):
    """Keeps every payment that was made.

    More.
    """
'''
TYPESCRIPT = """/**
 * Shows the basket to a customer.
 */
import { Button } from "./button";
import axios from 'axios';
export * from "../core/money";
const x = require("@scope/pkg/deep");

/** A basket of things that are not paid yet. */
export class Basket {}
"""
GO = """// Package store keeps orders on disk.
package store

import (
\t"fmt"
\tm "example.org/shop/money"
)

// Order is what a customer asked for.
type Order struct {}
"""
RUST = """//! Reads prices from files of suppliers.
use crate::money::Cents;
use std::fs;
mod parser;

/// A price that a supplier told us.
pub struct Price;
"""
JAVA = """// Copyright 2020 Somebody
package org.example.shop;

import org.example.money.Cents;
import static java.util.List.of;

/** Takes orders of customers over the wire. */
public class OrderService {}
"""


def known(path: str, language: str, lines: int = 10) -> KnownFile:
    return KnownFile(path, f"blob of {path}", "code", language, 100, lines, 1)


@pytest.mark.parametrize(
    ("language", "text", "imports", "doc", "term"),
    [
        (
            "python",
            PYTHON,
            ("json", "os.path", ".", ".money", "..core.clock", "shop.core"),
            "Owns the ledger: what was paid.",
            ("Ledger", "Keeps every payment that was made."),
        ),
        (
            "typescript",
            TYPESCRIPT,
            ("./button", "axios", "../core/money", "@scope/pkg/deep"),
            "Shows the basket to a customer.",
            ("Basket", "A basket of things that are not paid yet."),
        ),
        (
            "go",
            GO,
            ("fmt", "example.org/shop/money"),
            "store: keeps orders on disk.",
            ("Order", "Order is what a customer asked for."),
        ),
        (
            "rust",
            RUST,
            ("crate::money::Cents", "std::fs", "self::parser"),
            "Reads prices from files of suppliers.",
            ("Price", "A price that a supplier told us."),
        ),
        (
            "java",
            JAVA,
            ("org.example.money.Cents", "java.util.List.of"),
            "Takes orders of customers over the wire.",
            ("OrderService", "Takes orders of customers over the wire."),
        ),
    ],
)
def test_a_source_file_is_outlined(
    language: str, text: str, imports: tuple[str, ...], doc: str, term: tuple[str, str]
) -> None:
    made = outline(language, text.splitlines())
    assert set(imports) <= set(made.imports)
    assert made.doc == doc
    assert [(each.name, each.text) for each in made.terms] == [term]
    assert from_json(made.to_json()) == made


def test_a_credential_is_not_repeated() -> None:
    made = outline("python", ['"""Uses the password hunter2-longer: password=hunter2-longer-still."""'])
    assert made.doc == ""


FILES = [
    known("pyproject.toml", "toml"),
    known("src/shop/core/clock.py", "python"),
    known("src/shop/core/errors.py", "python"),
    known("src/shop/ledger/book.py", "python"),
    known("src/shop/ledger/__init__.py", "python"),
    known("web/app/basket.ts", "typescript"),
    known("web/core/money.ts", "typescript"),
    known("web/ui/index.tsx", "tsx"),
    known("go/store/order.go", "go"),
    known("go/money/cents.go", "go"),
    known("crates/prices/src/lib.rs", "rust"),
    known("crates/prices/src/money.rs", "rust"),
    known("crates/money/src/lib.rs", "rust"),
    known("java/src/main/java/org/shop/Order.java", "java"),
    known("java/src/main/java/org/money/Cents.java", "java"),
]


@pytest.mark.parametrize(
    ("path", "name", "target"),
    [
        ("src/shop/ledger/book.py", "shop.core.clock", "src/shop/core/clock.py"),
        ("src/shop/ledger/book.py", "..core.errors", "src/shop/core/errors.py"),
        ("src/shop/ledger/book.py", ".", "src/shop/ledger/__init__.py"),
        ("src/shop/ledger/book.py", "json", None),
        ("web/app/basket.ts", "../core/money", "web/core/money.ts"),
        ("web/app/basket.ts", "../core/money.js", "web/core/money.ts"),
        ("web/app/basket.ts", "../ui", "web/ui/index.tsx"),
        ("web/app/basket.ts", "@shop/core", "web/core/."),
        ("web/app/basket.ts", "axios", None),
        ("go/store/order.go", "example.org/shop/money", "go/money/."),
        ("go/store/order.go", "fmt", None),
        ("crates/prices/src/lib.rs", "crate::money::Cents", "crates/prices/src/money.rs"),
        ("crates/prices/src/lib.rs", "self::money", "crates/prices/src/money.rs"),
        ("java/src/main/java/org/shop/Order.java", "org.money.Cents", "java/src/main/java/org/money/Cents.java"),
    ],
)
def test_an_import_means_a_file(path: str, name: str, target: str | None) -> None:
    imports = ImportMap(FILES, {"example.org/shop": "go"}, {"@shop/core": "web/core"})
    file = next(file for file in FILES if file.path == path)
    assert imports.target(file, name) == target


def test_imports_add_up_by_component() -> None:
    components = Components(FILES)
    outlines = {"src/shop/ledger/book.py": outline("python", ["import shop.core.clock", "import orjson"])}
    found = dependencies(FILES, outlines, ImportMap(FILES, {}, {}), components)
    start, end = components.of("src/shop/ledger/book.py"), components.of("src/shop/core/clock.py")
    assert start is not None and end is not None
    assert found.between == ({(start, end): 1} if start != end else {})
    assert found.external == {"orjson": 1}


def test_a_large_directory_is_opened_and_what_is_vendored_left_out() -> None:
    files = [
        *(known(f"src/app/{part}/m{number}.py", "python", 100) for part in ("api", "store") for number in range(5)),
        known("tools/x.py", "python", 10),
        known("node_modules/left/pad.js", "javascript", 5_000),
        known("web/app.min.js", "javascript", 5_000),
    ]
    mine = own(files)
    components = Components(mine)
    assert {component.path for component in components.all} == {"src/app/api", "src/app/store", "tools"}
    assert components.of("src/app/api/m1.py") == "src/app/api"
    assert components.of("node_modules/left/pad.js") is None


def test_manifests_tell_what_they_need_and_start() -> None:
    lines = [
        "[project]",
        'name = "shop"',
        'description = "Sells things"',
        'dependencies = ["aiohttp>=3", "orjson"]',
        "[project.scripts]",
        'shop = "shop.main:main"',
    ]
    made = parse_manifest("pyproject.toml", lines)
    assert made is not None
    assert (made.name, made.description, made.description_line) == ("shop", "Sells things", 3)
    assert [(each.name, each.line) for each in made.dependencies] == [("aiohttp", 4), ("orjson", 4)]
    assert [(each.name, each.text, each.line) for each in made.entry_points] == [("shop", "shop.main:main", 6)]
    node = parse_manifest(
        "web/package.json", ['{"name": "@shop/web", "scripts": {"test": "vitest"},', '"bin": "x.js"}']
    )
    assert node is not None
    assert [(each.name, each.text) for each in node.commands] == [("npm run test", "vitest")]
    assert parse_manifest("package.json", ["{broken"]) is None
    assert parse_manifest("package.json", ["[1, 2]"]) is None
