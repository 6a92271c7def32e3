"""Owns the REST operations that answer from repositories: searching, asking, and what synthesis found in them."""

from collections.abc import Sequence

from pydantic import Field, field_validator

from holdfast.core.access import READ, WRITE
from holdfast.core.clock import iso_or_none
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.model import Model
from holdfast.core.operations import Call, Operation
from holdfast.features.ask.model import MAX_QUESTION, Answer, Citation
from holdfast.features.ask.service import Ask
from holdfast.features.repositories.finding.matches import FileMatch
from holdfast.features.repositories.finding.search import RepositoryFinding
from holdfast.features.repositories.model import ENTRY_TYPES, Match
from holdfast.features.repositories.service import MAX_REPOSITORIES_ASKED, Repositories
from holdfast.surfaces.rest.repositories import BASE, TAG, Gate, Text

MAX_MATCHES = 50
_SOURCE = "rest"


def _split(value: object) -> object:
    """Words that were repeated or separated by commas."""
    values = value if isinstance(value, list) else [value]
    return [word.strip() for item in values if isinstance(item, str) for word in item.split(",") if word.strip()]


class RepositoryFilesQuery(Model):
    q: Text = Field(min_length=1, max_length=MAX_QUESTION, description="What is to be done, in plain words")
    slugs: list[str] = Field(
        default_factory=list,
        max_length=MAX_REPOSITORIES_ASKED,
        description="Only these repositories, repeated or separated by commas; all of the workspace's when left out",
    )
    limit: int = Field(default=10, ge=1, le=MAX_MATCHES, description="How many files at most")

    _split_slugs = field_validator("slugs", mode="before")(_split)


class RepositorySearchQuery(RepositoryFilesQuery):
    q: Text = Field(min_length=1, max_length=MAX_QUESTION, description="Words, a symbol, a path, a commit or #number")
    types: list[str] = Field(
        default_factory=list,
        description=f"Only these, repeated or separated by commas: {', '.join(ENTRY_TYPES)}",
    )
    limit: int = Field(default=12, ge=1, le=MAX_MATCHES, description="How many matches at most")
    least: float = Field(default=0.3, ge=0, le=1, description="The least similarity of what is not named exactly")

    _split_types = field_validator("types", mode="before")(_split)

    @field_validator("types")
    @classmethod
    def _known(cls, value: list[str]) -> list[str]:
        unknown = next((word for word in value if word not in ENTRY_TYPES), None)
        if unknown is not None:
            raise ValueError(f"{unknown[:60]!r} is none of {', '.join(ENTRY_TYPES)}")
        return value


class QuestionBody(Model):
    question: Text = Field(min_length=1, max_length=MAX_QUESTION, description="The question, in plain words")
    slugs: list[Text] = Field(
        default_factory=list,
        max_length=MAX_REPOSITORIES_ASKED,
        description="The repositories to ask; all of the workspace's when left out",
    )


class MatchAnswer(Model):
    repository: str
    type: str
    source_id: str
    title: str
    content: str
    similarity: float
    exact: bool = Field(description="Whether it is what the query names: a symbol, a path, a commit, a number")
    occurred_at: str | None
    author: str
    path: str
    start_line: int | None
    end_line: int | None
    commit: str
    number: str
    url: str


class MatchesAnswer(Model):
    results: list[MatchAnswer]


class FileMatchAnswer(Model):
    repository: str
    path: str
    score: float = Field(description="0 to 1; compares the files of one answer")
    reasons: list[str] = Field(description="What spoke for it, strongest first: named, passages, past, activity")
    past: list[str] = Field(description="Similar commits, and pull requests as `pr:12`, that changed it")


class FileMatchesAnswer(Model):
    results: list[FileMatchAnswer]


class CitationAnswer(Model):
    number: int = Field(description="As it stands in the answer, `[1]`")
    kind: str
    repository: str
    address: str
    title: str
    url: str


class QuestionAnswer(Model):
    markdown: str
    citations: list[CitationAnswer]
    dropped: int = Field(description="Citations that did not hold and were taken out")
    removed: int = Field(description="Statements that no source supports and that were taken out")
    model: str
    note: str = Field(description="Why a model's own answer is not the one given")
    tokens_in: int
    tokens_out: int


def operations(repositories: Repositories, finding: RepositoryFinding, ask: Ask, gate: Gate) -> list[Operation]:
    """Everything that is asked of repositories."""

    async def search(call: Call) -> MatchesAnswer:
        asked: RepositorySearchQuery = call.query
        slugs = await _slugs(call, asked.slugs)
        if not slugs:
            return MatchesAnswer(results=[])
        found = await finding.search(
            call.principal,
            slugs,
            asked.q,
            limit=asked.limit,
            least=asked.least,
            types=frozenset(asked.types) or None,
        )
        return MatchesAnswer(results=[_match_answer(each) for each in found])

    async def files(call: Call) -> FileMatchesAnswer:
        asked: RepositoryFilesQuery = call.query
        slugs = await _slugs(call, asked.slugs)
        found = await finding.files(call.principal, slugs, asked.q, limit=asked.limit) if slugs else []
        return FileMatchesAnswer(results=[_file_match_answer(each) for each in found])

    async def question(call: Call) -> QuestionAnswer:
        body: QuestionBody = call.body
        # A model may take its time; it has limits of its own.
        call.unhurried()
        slugs = await _slugs(call, body.slugs)
        if not slugs:
            raise Invalid("This workspace has no repository yet; add one, and ask when it is read.")
        return _question_answer(await ask.ask(call.principal, slugs, body.question, source=_SOURCE))

    async def _slugs(call: Call, named: Sequence[str]) -> Sequence[str]:
        """The repositories that were named, or all of the workspace's."""
        if named:
            return [each.slug for each in await gate.named(call, named)]
        page = await repositories.list(
            call.principal, workspace_id=call.path["workspace_id"], limit=MAX_REPOSITORIES_ASKED
        )
        if page.next_cursor is not None:
            problem = f"this workspace has more than {MAX_REPOSITORIES_ASKED} repositories; name some of them"
            raise Invalid("Which repositories?", fields=[FieldError("slugs", problem)])
        return [each.slug for each in page.items]

    return [
        Operation(
            method="GET",
            path=BASE + "/search",
            handler=search,
            summary="Find passages of commits, files, pull requests and issues; names are found exactly and first",
            tag=TAG,
            access=READ,
            query=RepositorySearchQuery,
            answer=MatchesAnswer,
        ),
        Operation(
            method="GET",
            path=BASE + "/files",
            handler=files,
            summary="Find the files that a piece of work is likely to touch, likeliest first",
            tag=TAG,
            access=READ,
            query=RepositoryFilesQuery,
            answer=FileMatchesAnswer,
        ),
        Operation(
            method="POST",
            path=BASE + "/ask",
            handler=question,
            summary="Ask repositories a question; the answer cites every source, and each citation was checked",
            tag=TAG,
            access=WRITE,
            body=QuestionBody,
            answer=QuestionAnswer,
        ),
    ]


def _match_answer(match: Match) -> MatchAnswer:
    return MatchAnswer(
        repository=match.repository.slug,
        type=match.type,
        source_id=match.source_id,
        title=match.title,
        content=match.content,
        similarity=round(match.similarity, 4),
        exact=match.exact,
        occurred_at=iso_or_none(match.occurred_at),
        author=match.author,
        path=match.path,
        start_line=match.start_line,
        end_line=match.end_line,
        commit=match.commit,
        number=match.number,
        url=match.url,
    )


def _file_match_answer(match: FileMatch) -> FileMatchAnswer:
    return FileMatchAnswer(
        repository=match.repository.slug,
        path=match.path,
        score=round(match.score, 4),
        reasons=list(match.reasons),
        past=list(match.past),
    )


def _question_answer(answer: Answer) -> QuestionAnswer:
    return QuestionAnswer(
        markdown=answer.markdown,
        citations=[_citation_answer(each) for each in answer.citations],
        dropped=answer.dropped,
        removed=answer.removed,
        model=answer.model,
        note=answer.note,
        tokens_in=answer.tokens_in,
        tokens_out=answer.tokens_out,
    )


def _citation_answer(citation: Citation) -> CitationAnswer:
    return CitationAnswer(
        number=citation.number,
        kind=citation.kind,
        repository=citation.repository,
        address=citation.address,
        title=citation.title,
        url=citation.url,
    )
