"""Owns the five looks into repositories that a model may take while it answers, and numbers what they show."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, Field

from holdfast.core.access import RUN
from holdfast.core.clock import iso
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.principal import Principal
from holdfast.core.tools.alias import AliasInput, AnyAlias, under_its_name
from holdfast.core.tools.gateway import Gateway
from holdfast.core.tools.outcome import Json, Outcome
from holdfast.core.tools.tool import Annotations, AnyTool, Tool, ToolCall
from holdfast.engines.git.model import Commit, TreeEntry
from holdfast.engines.llm.model import TOOL_SECONDS, LoopTool
from holdfast.engines.llm.offered import Offer, loop_tool
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

_PATH = "A path from the repository's root, such as src/app.py"


class LookInput(AliasInput):
    project: str | None = Field(None, description="The slug of the repository")


class TreeInput(LookInput):
    path: str = Field("", description=_PATH)
    recursive: bool = Field(False, description="Also what is in subdirectories")


class LinesInput(LookInput):
    path: str = Field(description=_PATH)
    start_line: int | None = Field(None, ge=1, description="The first line, counted from 1.")
    end_line: int | None = Field(None, ge=1, description="The last line.")

    def span(self, most: int) -> tuple[int, int]:
        """The first and the last line to show."""
        start = min(self.start_line or 1, 10_000_000)
        last = start + most - 1
        return start, min(self.end_line or last, last)


class LogInput(LookInput):
    path: str = Field("", description=_PATH)
    limit: int = Field(MOST_COMMITS, ge=1, description=f"How many, at most {MOST_COMMITS}")


class ShowInput(LookInput):
    commit: str = Field(description="The commit's hash, or at least its first 7 digits")


class LookOutput(BaseModel):
    text: str
    sources: int


@dataclass(frozen=True, slots=True)
class Looking:
    """One question's repositories, which its looks reach and no other, and the numbers of what they showed."""

    repositories: Mapping[str, Repository]
    ledger: Ledger

    def repository(self, slug: str | None) -> Repository:
        """The repository of that name among these; the only one where none is named."""
        if slug is None and len(self.repositories) == 1:
            return next(iter(self.repositories.values()))
        found = self.repositories.get(slug) if slug is not None else None
        if found is None:
            # Whether somebody else has a repository of that name is not told.
            raise RepositoryNotFound(str(slug)[:80])
        return found


@dataclass(frozen=True, slots=True)
class _Kind:
    """A tool before it is given files."""

    name: str
    title: str
    description: str
    input: type[LookInput]


_KINDS = (
    _Kind(
        "list_tree",
        "List files",
        "List the files and directories below a path of a repository, at its newest commit.",
        TreeInput,
    ),
    _Kind("read_file", "Read a file", f"Read up to {MOST_LINES} lines of a file at the newest commit.", LinesInput),
    _Kind(
        "git_log",
        "List commits",
        "List the commits that changed a path, newest first, also before a rename; without a path, of all.",
        LogInput,
    ),
    _Kind(
        "git_blame", "Blame lines", "Tell who last changed the lines of a file, when, and in which commit.", LinesInput
    ),
    _Kind("show_commit", "Show a commit", "Show a commit with its message and its patch.", ShowInput),
)


def tools(files: LiveFiles) -> list[AnyTool]:
    """list_tree, read_file, git_log, git_blame and show_commit."""
    looks = _Looks(files)
    handlers: dict[str, Callable[[ToolCall, Any], Awaitable[LookOutput]]] = {
        "list_tree": looks.tree,
        "read_file": looks.read,
        "git_log": looks.log,
        "git_blame": looks.blame,
        "show_commit": looks.show,
    }
    return [
        Tool(
            name=kind.name,
            title=kind.title,
            description=kind.description,
            input=kind.input,
            output=LookOutput,
            handler=handlers[kind.name],
            annotations=Annotations(read_only=True, idempotent=True),
            access=RUN,
            text=lambda output: output.text,
            consumer=None,
        )
        for kind in _KINDS
    ]


def aliases() -> list[AnyAlias]:
    """Only `ask` has a question to look for and numbers to give."""
    return [under_its_name(kind.name, "ask", kind.description, kind.input, _shown) for kind in _KINDS]


def live_call(principal: Principal, repositories: Sequence[Repository], ledger: Ledger) -> ToolCall:
    """The circumstances of every look for one question."""
    first = repositories[0]
    looking = Looking({repository.slug: repository for repository in repositories}, ledger)
    return ToolCall(
        principal, first.workspace_id, "ask", project_id=first.project_id, seconds=TOOL_SECONDS, turn=looking
    )


def live_tools(gateway: Gateway, call: ToolCall) -> list[LoopTool]:
    """The tools for one question, with the names of its repositories."""
    slugs = list(call.during(Looking).repositories)
    offered = gateway.visible_aliases(call.principal, "ask").values()
    made = [loop_tool(gateway, call, Offer(alias, {})) for alias in offered]
    return [replace(tool, parameters=_naming(slugs, tool.parameters)) for tool in made]


def _naming(slugs: Sequence[str], parameters: Json) -> Json:
    project = {**parameters["properties"]["project"], "enum": list(slugs)}
    return {
        **parameters,
        "properties": {**parameters["properties"], "project": project},
        "required": ["project", *parameters.get("required", ())],
    }


def _shown(output: LookOutput) -> Outcome:
    return Outcome(output.text, sources=output.sources, untrusted=True)


class _Looks:
    """The handlers: what is read is numbered in the question's ledger."""

    def __init__(self, files: LiveFiles) -> None:
        self._files = files

    async def tree(self, call: ToolCall, given: TreeInput) -> LookOutput:
        """What is below a path."""
        looking, repository = _where(call, given)
        path = _path(given.path)
        found = await self._files.tree(
            call.principal, repository.slug, path, recursive=given.recursive, limit=MOST_NAMES
        )
        listed = "\n".join(map(_named, found)) or "(empty)"
        number = looking.ledger.add(Evidence(repository, DIRECTORY, path, path or "/", listed, is_read=True))
        return _told([number], f"{_mark(number)}{repository.slug}:{path}/\n{listed}")

    async def read(self, call: ToolCall, given: LinesInput) -> LookOutput:
        """Lines of a file."""
        looking, repository = _where(call, given)
        path = _needed(given.path)
        start, end = given.span(MOST_LINES)
        if end < start:
            raise _wrong("end_line", "must not be before start_line")
        excerpt = await self._files.read(call.principal, repository.slug, path, start, end)
        evidence = file_evidence(
            repository, excerpt.path, excerpt.text, excerpt.start_line, excerpt.end_line, is_read=True
        )
        number = looking.ledger.add(evidence)
        lines = [f"{at}| {line}" for at, line in enumerate(excerpt.text.splitlines(), excerpt.start_line)]
        shown = "\n".join(lines)
        return _told([number], f"{_mark(number)}{evidence.address} of {excerpt.total_lines} lines\n{shown}")

    async def log(self, call: ToolCall, given: LogInput) -> LookOutput:
        """Commits that changed a path."""
        looking, repository = _where(call, given)
        limit = min(given.limit, MOST_COMMITS)
        commits = await self._files.log(call.principal, repository.slug, _path(given.path), limit=limit)
        numbers, lines = list[int](), list[str]()
        for commit in commits:
            numbers.append(looking.ledger.add(commit_evidence(repository, commit)))
            lines.append(f"{_mark(numbers[-1])}{_summary(commit)}")
        return _told(numbers, "\n".join(lines) or "No commit changed it.")

    async def blame(self, call: ToolCall, given: LinesInput) -> LookOutput:
        """Who changed lines last."""
        looking, repository = _where(call, given)
        path = _needed(given.path)
        start, end = given.span(MOST_BLAMED)
        found = await self._files.blame(call.principal, repository.slug, path, start, end)
        numbers, lines = list[int](), list[str]()
        for run in found:
            numbers.append(looking.ledger.add(blame_evidence(repository, path, run)))
            said = f"{run.sha[:7]} {iso(run.authored_at)[:10]} {run.author}: {run.subject}"
            lines.append(f"L{run.start_line}-L{run.end_line} {_mark(numbers[-1])}{said}")
        return _told(numbers, f"{path}\n" + "\n".join(lines))

    async def show(self, call: ToolCall, given: ShowInput) -> LookOutput:
        """A commit with its patch."""
        looking, repository = _where(call, given)
        prefix = given.commit.strip().lower()
        if not 7 <= len(prefix) <= 40 or set(prefix) - set("0123456789abcdef"):
            raise _wrong("commit", "must be 7 to 40 hexadecimal digits")
        shown = await self._files.show(call.principal, repository.slug, prefix)
        patch = shown.patch[:PATCH_CHARACTERS]
        number = looking.ledger.add(commit_evidence(repository, shown.commit, patch))
        cut = "\n(the patch goes on)" if shown.truncated or len(shown.patch) > len(patch) else ""
        text = f"{_mark(number)}{_summary(shown.commit, len(shown.commit.body))}\n\n{patch}{cut}"
        return _told([number], text)


def _where(call: ToolCall, given: LookInput) -> tuple[Looking, Repository]:
    looking = call.during(Looking)
    return looking, looking.repository(given.project)


def _path(given: str) -> str:
    """The path that was asked for, from the root down and nowhere else."""
    path = given.removeprefix("./").strip("/")
    parts = path.split("/")
    if len(path) > MOST_PATH or ".." in parts or "." in parts[:-1] or not path.isprintable():
        raise _wrong("path", "must lead from the repository's root to something in it")
    return "" if path == "." else path


def _needed(given: str) -> str:
    path = _path(given)
    if not path:
        raise _wrong("path", "is needed")
    return path


def _told(numbers: Sequence[int], text: str) -> LookOutput:
    return LookOutput(text=text, sources=len({number for number in numbers if number}))


def _summary(commit: Commit, characters: int = BODY_CHARACTERS) -> str:
    head = f"{commit.sha[:7]} {iso(commit.authored_at)[:10]} {commit.author}: {commit.subject}"
    body = commit.body.strip()[:characters]
    return f"{head}\n{body}" if body else head


def _named(entry: TreeEntry) -> str:
    return f"{entry.path}/" if entry.kind == "directory" else entry.path


def _mark(number: int) -> str:
    return f"[{number}] " if number else "(too many sources; do not cite) "


def _wrong(field: str, problem: str) -> Invalid:
    return Invalid(f"The arguments are wrong: {field} {problem}.", fields=[FieldError(field, problem)])
