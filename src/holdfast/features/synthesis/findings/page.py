"""Owns the form of a derived page: sections of statements, each with the numbers of its sources, listed at the end."""

from collections.abc import Iterable, Sequence

from holdfast.features.repositories.model import Repository
from holdfast.features.synthesis.model import PAGE, FindingDraft, FindingKind, FindingOrigin
from holdfast.features.synthesis.sources.quoting import is_fit, shortened

MAX_SOURCES = 120
YOURS = "edit it and it is yours.*\n"
"""The end of what is said on top of every page."""
TITLES: dict[str, str] = {
    "architecture": "Architecture of {name}",
    "components": "Components of {name}",
    "hot_spots": "Hot spots of {name}",
    "owners": "Owners of {name}",
    "glossary": "Glossary of {name}",
}


class DerivedPage:
    """A page in the making."""

    def __init__(self, repository: Repository, kind: FindingKind) -> None:
        self._repository = repository
        self._kind = kind
        self._lines: list[str] = []
        self._sources: dict[FindingOrigin, tuple[int, str]] = {}

    @property
    def is_empty(self) -> bool:
        return not self._lines

    def head(self, title: str) -> None:
        """Begin a section."""
        self._lines += ["", f"## {title}", ""]

    def say(self, text: str, *cited: tuple[FindingOrigin, str]) -> None:
        """A statement with what supports it: each citation and the words found there."""
        marks = self.marks(cited)
        if is_fit(text) and (marks or not cited):
            self._lines.append(f"{text}{marks}")

    def point(self, text: str, *cited: tuple[FindingOrigin, str]) -> None:
        """The same as an item of a list."""
        self.say(f"- {text}", *cited)

    def gap(self) -> None:
        """A new paragraph."""
        self._lines.append("")

    def table(self, names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A table; a cell's bars are no borders."""
        self._lines += [f"| {' | '.join(names)} |", f"|{' --- |' * len(names)}"]
        for row in rows:
            cells = [cell.replace("|", "\\|").replace("\n", " ") for cell in row]
            if is_fit(*cells):
                self._lines.append(f"| {' | '.join(cells)} |")

    def block(self, language: str, lines: Iterable[str]) -> None:
        """Something to be shown as it is."""
        self._lines += ["", f"```{language}", *lines, "```", ""]

    def marks(self, cited: Iterable[tuple[FindingOrigin, str]]) -> str:
        """The numbers of sources, as they follow a statement."""
        numbers = [number for citation, words in cited if (number := self._number(citation, words))]
        return "".join(f" [{number}]" for number in dict.fromkeys(numbers))

    def draft(self) -> FindingDraft:
        """The page as it would be written."""
        name = self._repository.name
        body = "\n".join([*self._lines, *self._listed()])
        note = f"*Derived by Holdfast from the repository {self._repository.slug}; {YOURS}"
        return FindingDraft(
            kind=self._kind,
            key=PAGE,
            title=f"{TITLES[self._kind].format(name=name)} (derived)",
            body=f"# {TITLES[self._kind].format(name=name)}\n\n{note}{body}".rstrip() + "\n",
            citations=tuple(self._sources),
            sources=tuple((citation.label, words) for citation, (_, words) in self._sources.items()),
        )

    def _number(self, citation: FindingOrigin, words: str) -> int:
        known = self._sources.get(citation)
        if known is not None:
            return known[0]
        if len(self._sources) >= MAX_SOURCES or not is_fit(words):
            return 0
        self._sources[citation] = (len(self._sources) + 1, shortened(words, 600))
        return len(self._sources)

    def _listed(self) -> list[str]:
        if not self._sources:
            return []
        listed = [f"- [{number}] {citation.label}" for citation, (number, _) in self._sources.items()]
        return ["", "## Sources", "", *listed]
