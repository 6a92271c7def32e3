"""Owns the repository that synthesis is proved on: a small shop with records, owners, tags, fixes and a revert."""

from pathlib import Path

from holdfast.core.principal import Principal
from holdfast.engines.jobs import Job
from holdfast.features.repositories.model import SYNTHESIS_KIND, Repository
from holdfast.features.synthesis.model import Finding, FindingKind
from tests.support.code.git import GitRepo
from tests.support.code.repositories import RepositoryWorld
from tests.support.features.intelligence import person

README = """# Shop

Shop sells tea to restaurants and keeps the books of every branch.

## Layout

- `src/shop/core/` – words that every part shares
- `docs/` – what operators read

## Development

```
uv sync
pytest -q
```

## Concepts

A ledger is the list of everything that was paid. Sales are entered at the Point of Sale (POS).
"""
BOOK = '''"""Keeps the book of payments."""

from shop.core import money


class Ledger:
    """Everything that was paid, in the order in which it was."""

    def add(self, cents: int) -> int:
        total = money.rounded(cents)
        return total

    def sum(self) -> int:
        return 0
'''
MONEY = '''"""Counts money in cents."""


def rounded(cents: int) -> int:
    """Cents as they are booked."""
    return cents
'''
API = '''"""Takes orders over HTTP."""

from shop.ledger.book import Ledger


class Orders:
    """What a restaurant asks for, until it is delivered."""

    ledger: Ledger
'''
FIRST = """# 1. Keep sums as floats

Date: 2023-01-02

## Status

Superseded by 0002

## Context

Sums must be kept.

## Decision

We keep sums as floats.
"""
SECOND = """# 2. Keep sums in cents

## Status

Accepted

## Context

Floats lose pennies.

## Decision

We keep sums in cents.
"""
PROJECT = """[project]
name = "shop"
description = "Sells tea to restaurants"
dependencies = ["orjson>=3"]

[project.scripts]
shop = "shop.main:main"
"""


def shop(path: Path) -> GitRepo:
    """The repository with its history."""
    repo = GitRepo(path)
    repo.commit("Describe the shop", {"README.md": README, "pyproject.toml": PROJECT, "Makefile": "test:\n\tpytest\n"})
    repo.commit(
        "Keep the book of payments",
        {
            "src/shop/core/__init__.py": '"""Words that are shared."""\n',
            "src/shop/core/money.py": MONEY,
            "src/shop/ledger/__init__.py": "",
            "src/shop/ledger/book.py": BOOK,
            "docs/adr/0001-floats.md": FIRST,
        },
    )
    repo.tag("v0.1.0", "The first branch uses it")
    repo.commit(
        "Record how sums are kept", {"docs/adr/0002-cents.md": SECOND}, author="Grace Hopper", email="grace@example.org"
    )
    repo.commit(
        "Use SQLite instead of PostgreSQL (#7)\n\nBecause a branch has one machine and nobody to run a server.",
        {"src/shop/api/__init__.py": "", "src/shop/api/orders.py": API},
        author="Grace Hopper",
        email="grace@example.org",
    )
    cached = repo.commit(
        "Switch sums to a cache\n\nWe decided to keep the sum in memory because adding is slow.",
        {"src/shop/ledger/book.py": BOOK.replace("return 0", "return self.cached")},
    )
    repo.commit(
        f'Revert "Switch sums to a cache"\n\nThis reverts commit {cached}.\n\nTwo branches saw different sums.',
        {"src/shop/ledger/book.py": BOOK},
    )
    repo.commit(
        "Fix the sum of an empty book",
        {
            "src/shop/ledger/book.py": BOOK.replace("return 0", "return sum([])"),
            "CODEOWNERS": "* @shop/all\n/src/ @ada\n",
        },
        author="Grace Hopper",
        email="grace@example.org",
    )
    repo.tag("v0.2.0", "Ready for all branches")
    return repo


async def synthesised(world: RepositoryWorld, repo: GitRepo, slug: str = "shop") -> Repository:
    """The repository once it is read and summed up."""
    await world.add(repo, slug=slug)
    await last_job(world)
    return await world.get(slug)


async def last_job(world: RepositoryWorld) -> Job:
    """The newest synthesis once it has ended."""
    jobs = await world.services.jobs.list(world.workspace_id, kind=SYNTHESIS_KIND, limit=1)
    return await world.job(jobs.items[0].id)


async def again(world: RepositoryWorld, slug: str = "shop") -> Job:
    """Sync, look at it again, and wait for both."""
    await world.sync(slug)
    await world.services.synthesis.start(world.principal, slug)
    return await last_job(world)


async def findings(world: RepositoryWorld, kind: FindingKind | None = None, slug: str = "shop") -> dict[str, Finding]:
    """What was found: by key, and pages by their kind."""
    found = await world.services.synthesis.findings(world.principal, slug, kind)
    return {each.kind if each.key == "page" else each.key: each for each in found}


def somebody(world: RepositoryWorld) -> Principal:
    """A person of the organization."""
    return person(world.principal.organization_id)
