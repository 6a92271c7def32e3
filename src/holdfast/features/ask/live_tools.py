"""Owns the five looks into repositories that a model may take while it answers, and numbers what they show."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core.clock import iso
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.principal import Principal
from holdfast.engines.git.model import Commit, TreeEntry
from holdfast.engines.llm.model import Json, LoopTool, Outcome
from holdfast.features.ask.sources import DIRECTORY, Evidence, Ledger, blame_evidence, commit_evidence, file_evidence
from holdfast.features.repositories.history.reading import LiveFiles
from holdfast.features.repositories.model import Repository, RepositoryNotFound

MOST_NAMES = 300
MOST_LINES = 200
MOST_COMMITS = 20
MOST_BLAMED = 200
PATCH_CHARACTERS = 12_000
BODY_CHARACTERS = 400
MOST_PATH = 1_000

_PROJECT = {"type": "string", "description": "The slug of the repository"}
_PATH = {"type": "string", "description": "A path from the repository's root, such as src/app.py"}
_LINE = {"type": "integer", "minimum": 1}


@dataclass(frozen=True, slots=True)
class _Look:
    """A call: where, and with which arguments."""

    repository: Repository
    arguments: Mapping[str, Any]

    def path(self, *, needed: bool = True) -> str:
        """The path that was asked for, from the root down and nowhere else."""
        given = self.arguments.get("path", "")
        if not isinstance(given, str):
            raise _wrong("path", "must be a text")
        path = given.removeprefix("./").strip("/")
        parts = path.split("/")
        if len(path) > MOST_PATH or ".." in parts or "." in parts[:-1] or not path.isprintable():
            raise _wrong("path", "must lead from the repository's root to something in it")
        if path == ".":
            path = ""
        if needed and not path:
            raise _wrong("path", "is needed")
        return path

    def number(self, name: str, otherwise: int, most: int) -> int:
        """A whole number from 1 on."""
        given = self.arguments.get(name)
        if given is None:
            return otherwise
        if isinstance(given, str) and given.isdecimal():
            given = int(given[:9])
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise _wrong(name, "must be a whole number from 1 on")
        return min(given, most)


class LiveTools:
    """The tools for one question: they reach the repositories that it names and no other."""

    def __init__(
        self, principal: Principal, repositories: Sequence[Repository], files: LiveFiles, ledger: Ledger
    ) -> None:
        self._principal = principal
        self._repositories = {repository.slug: repository for repository in repositories}
        self._files = files
        self._ledger = ledger

    def all(self) -> list[LoopTool]:
        """list_tree, read_file, git_log, git_blame and show_commit."""
        lines = {"start_line": _LINE, "end_line": _LINE}
        return [
            self._tool(
                "list_tree",
                "List the files and directories below a path of a repository, at its newest commit.",
                {"path": _PATH, "recursive": {"type": "boolean", "description": "Also what is in subdirectories"}},
                (),
                self._tree,
            ),
            self._tool(
                "read_file",
                f"Read up to {MOST_LINES} lines of a file at the newest commit.",
                {"path": _PATH, **lines},
                ("path",),
                self._read,
            ),
            self._tool(
                "git_log",
                "List the commits that changed a path, newest first, also before a rename; without a path, of all.",
                {"path": _PATH, "limit": {**_LINE, "maximum": MOST_COMMITS}},
                (),
                self._log,
            ),
            self._tool(
                "git_blame",
                "Tell who last changed the lines of a file, when, and in which commit.",
                {"path": _PATH, **lines},
                ("path",),
                self._blame,
            ),
            self._tool(
                "show_commit",
                "Show a commit with its message and its patch.",
                {"commit": {"type": "string", "description": "The commit's hash, or at least its first 7 digits"}},
                ("commit",),
                self._show,
            ),
        ]

    def _tool(
        self,
        name: str,
        description: str,
        properties: Json,
        required: Sequence[str],
        look: Callable[[_Look], Awaitable[Outcome]],
    ) -> LoopTool:
        async def run(arguments: Json) -> Outcome:
            return await look(_Look(self._repository(arguments), arguments))

        parameters = {
            "type": "object",
            "properties": {"project": {**_PROJECT, "enum": list(self._repositories)}, **properties},
            "required": ["project", *required],
        }
        return LoopTool(name, description, parameters, run)

    def _repository(self, arguments: Json) -> Repository:
        slug = arguments.get("project")
        if slug is None and len(self._repositories) == 1:
            return next(iter(self._repositories.values()))
        found = self._repositories.get(slug) if isinstance(slug, str) else None
        if found is None:
            # Whether somebody else has a repository of that name is not told.
            raise RepositoryNotFound(str(slug)[:80])
        return found

    async def _tree(self, look: _Look) -> Outcome:
        path, recursive = look.path(needed=False), look.arguments.get("recursive") is True
        found = await self._files.tree(
            self._principal, look.repository.slug, path, recursive=recursive, limit=MOST_NAMES
        )
        listed = "\n".join(map(_named, found)) or "(empty)"
        number = self._ledger.add(Evidence(look.repository, DIRECTORY, path, path or "/", listed, is_read=True))
        return self._told([number], f"{_mark(number)}{look.repository.slug}:{path}/\n{listed}")

    async def _read(self, look: _Look) -> Outcome:
        path, start = look.path(), look.number("start_line", 1, 10_000_000)
        end = look.number("end_line", start + MOST_LINES - 1, start + MOST_LINES - 1)
        if end < start:
            raise _wrong("end_line", "must not be before start_line")
        excerpt = await self._files.read(self._principal, look.repository.slug, path, start, end)
        evidence = file_evidence(
            look.repository, excerpt.path, excerpt.text, excerpt.start_line, excerpt.end_line, is_read=True
        )
        number = self._ledger.add(evidence)
        lines = [f"{at}| {line}" for at, line in enumerate(excerpt.text.splitlines(), excerpt.start_line)]
        shown = "\n".join(lines)
        return self._told([number], f"{_mark(number)}{evidence.address} of {excerpt.total_lines} lines\n{shown}")

    async def _log(self, look: _Look) -> Outcome:
        limit = look.number("limit", MOST_COMMITS, MOST_COMMITS)
        commits = await self._files.log(self._principal, look.repository.slug, look.path(needed=False), limit=limit)
        numbers, lines = list[int](), list[str]()
        for commit in commits:
            numbers.append(self._ledger.add(commit_evidence(look.repository, commit)))
            lines.append(f"{_mark(numbers[-1])}{_summary(commit)}")
        return self._told(numbers, "\n".join(lines) or "No commit changed it.")

    async def _blame(self, look: _Look) -> Outcome:
        path, start = look.path(), look.number("start_line", 1, 10_000_000)
        end = look.number("end_line", start + MOST_BLAMED - 1, start + MOST_BLAMED - 1)
        found = await self._files.blame(self._principal, look.repository.slug, path, start, end)
        numbers, lines = list[int](), list[str]()
        for run in found:
            numbers.append(self._ledger.add(blame_evidence(look.repository, path, run)))
            said = f"{run.sha[:7]} {iso(run.committed_at)[:10]} {run.author}: {run.subject}"
            lines.append(f"L{run.start_line}-L{run.end_line} {_mark(numbers[-1])}{said}")
        return self._told(numbers, f"{path}\n" + "\n".join(lines))

    async def _show(self, look: _Look) -> Outcome:
        given = look.arguments.get("commit")
        prefix = given.strip().lower() if isinstance(given, str) else ""
        if not 7 <= len(prefix) <= 40 or set(prefix) - set("0123456789abcdef"):
            raise _wrong("commit", "must be 7 to 40 hexadecimal digits")
        shown = await self._files.show(self._principal, look.repository.slug, prefix)
        patch = shown.patch[:PATCH_CHARACTERS]
        number = self._ledger.add(commit_evidence(look.repository, shown.commit, patch))
        cut = "\n(the patch goes on)" if shown.truncated or len(shown.patch) > len(patch) else ""
        text = f"{_mark(number)}{_summary(shown.commit, len(shown.commit.body))}\n\n{patch}{cut}"
        return self._told([number], text)

    def _told(self, numbers: Sequence[int], text: str) -> Outcome:
        return Outcome(text, sources=len({number for number in numbers if number}), untrusted=True)


def _summary(commit: Commit, characters: int = BODY_CHARACTERS) -> str:
    head = f"{commit.sha[:7]} {iso(commit.committed_at)[:10]} {commit.author}: {commit.subject}"
    body = commit.body.strip()[:characters]
    return f"{head}\n{body}" if body else head


def _named(entry: TreeEntry) -> str:
    return f"{entry.path}/" if entry.kind == "directory" else entry.path


def _mark(number: int) -> str:
    return f"[{number}] " if number else "(too many sources; do not cite) "


def _wrong(field: str, problem: str) -> Invalid:
    return Invalid(f"The arguments are wrong: {field} {problem}.", fields=[FieldError(field, problem)])
