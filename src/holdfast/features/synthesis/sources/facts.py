"""Owns what the findings are made of: the files at the head, what was read of them, and what the history adds up to."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.engines.git.model import Tag
from holdfast.features.repositories.model import FoundSymbol, Item, KnownFile, Repository
from holdfast.features.synthesis.sources.codeowners import PLACES, CodeOwners, parse_code_owners
from holdfast.features.synthesis.sources.components import Components
from holdfast.features.synthesis.sources.history import History
from holdfast.features.synthesis.sources.imports import Dependencies, ImportMap, dependencies
from holdfast.features.synthesis.sources.manifests import Manifest, parse_manifest
from holdfast.features.synthesis.sources.outline import Outline

_README = re.compile(r"^readme(?:\.(?:md|markdown|rst|txt|adoc))?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that was collected of a repository."""

    repository: Repository
    files: Sequence[KnownFile]
    """Those that the project wrote itself."""
    components: Components
    outlines: Mapping[str, Outline]
    texts: Mapping[str, Sequence[str]]
    """Path → lines of documents, manifests and the like."""
    symbols: Sequence[FoundSymbol]
    """The largest definitions."""
    history: History
    tags: Sequence[Tag]
    """Oldest first."""
    releases: Mapping[str, Item]
    """By tag."""
    manifests: Sequence[Manifest]
    dependencies: Dependencies
    code_owners: CodeOwners | None

    def readme(self, directory: str = "") -> str | None:
        """The path of a directory's README, where its text was read."""
        return next(
            (
                path
                for path in sorted(self.texts)
                if posixpath.dirname(path) == directory and _README.match(path.rsplit("/", 1)[-1])
            ),
            None,
        )


def is_readme(path: str) -> bool:
    """Whether a file is a README."""
    return _README.match(path.rsplit("/", 1)[-1]) is not None


def facts_of(
    repository: Repository,
    files: Sequence[KnownFile],
    components: Components,
    outlines: Mapping[str, Outline],
    texts: Mapping[str, Sequence[str]],
    symbols: Sequence[FoundSymbol],
    history: History,
    tags: Sequence[Tag],
    releases: Mapping[str, Item],
) -> Facts:
    """Put together what was read."""
    manifests = [made for path, lines in sorted(texts.items()) if (made := parse_manifest(path, lines))]
    imports = ImportMap(
        files,
        {made.name: made.directory for made in manifests if made.ecosystem == "Go" and made.name},
        {made.name: made.directory for made in manifests if made.ecosystem in ("Node", "Rust") and made.name},
    )
    owned = next((path for path in PLACES if path in texts), None)
    return Facts(
        repository=repository,
        files=files,
        components=components,
        outlines=outlines,
        texts=texts,
        symbols=symbols,
        history=history,
        tags=tags,
        releases=releases,
        manifests=manifests,
        dependencies=dependencies(files, outlines, imports, components),
        code_owners=None if owned is None else parse_code_owners(owned, texts[owned]),
    )
