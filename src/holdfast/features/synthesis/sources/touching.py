"""Owns what a commit touched, as far as that tells a choice about the product from handiwork around it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_MANIFEST = re.compile(
    r"(?:^|/)(?:pyproject\.toml|setup\.(?:py|cfg)|requirements[^/]*\.txt|Pipfile|package\.json|Cargo\.toml|go\.mod|"
    r"pom\.xml|build\.gradle(?:\.kts)?|Gemfile|[^/]+\.gemspec|composer\.json|mix\.exs|[^/]+\.csproj|Package\.swift)$"
)
_NOTES = re.compile(
    r"(?:^|/)(?:CHANGE(?:LOG|S)|HISTORY|NEWS|RELEASE[-_ ]?NOTES|UPGRAD(?:E|ING)|MIGRATI(?:ON|NG))[^/]*$|"
    r"(?:^|/)(?:changelog|changes|news|release[-_]notes)\.d?/",
    re.IGNORECASE,
)
_TESTS = re.compile(
    r"(?:^|/)(?:tests?|testing|specs?|__tests__|fixtures|testdata|benches|benchmarks?)/|"
    r"(?:^|/)(?:test_[^/]*|conftest\.py|[^/]*(?:_test|_spec|\.test|\.spec)\.[a-z]+)$",
    re.IGNORECASE,
)
_DOCUMENTS = re.compile(
    r"(?:^|/)(?:docs?|documentation|examples?|website)/|\.(?:md|rst|adoc|txt)$|(?:^|/)mkdocs\.yml$", re.IGNORECASE
)
_TOOLING = re.compile(
    r"^\.[^/]+(?:/|$)|(?:^|/)(?:Makefile|tox\.ini|noxfile\.py|setup\.cfg|[^/]*\.ya?ml|[^/]*lint[^/]*)$|^(?:scripts|ci|tools)/",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Touched:
    """What a commit touched; a change of nothing known speaks neither for a choice nor against one."""

    known: bool = False
    manifest: bool = False
    """What the project depends on, or how it is packaged."""
    notes: bool = False
    """What users are told of a release: somebody thought that they should know."""
    around: bool = False
    """Nothing but tests, documents and tooling."""


NOTHING_KNOWN = Touched()


def touched(paths: Iterable[str]) -> Touched:
    """What the paths of a commit's changes say about it."""
    given = list(paths)
    manifest, notes = any(map(_MANIFEST.search, given)), any(map(_NOTES.search, given))
    around = bool(given) and not manifest and all(_is_around(path) for path in given)
    return Touched(bool(given), manifest, notes, around)


def _is_around(path: str) -> bool:
    return any(kind.search(path) is not None for kind in (_NOTES, _TESTS, _DOCUMENTS, _TOOLING))
