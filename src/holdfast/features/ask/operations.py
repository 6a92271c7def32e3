"""Owns the REST operation that asks repositories a question."""

from pydantic import Field

from holdfast.core.access import WRITE
from holdfast.core.errors import Invalid
from holdfast.core.model import Answer, Model, Text
from holdfast.core.operations import Call, Operations
from holdfast.core.principal import Principal
from holdfast.features.ask.model import MAX_QUESTION
from holdfast.features.ask.service import Ask
from holdfast.features.repositories.operations.named import BASE, TAG, chosen
from holdfast.features.repositories.service import MAX_REPOSITORIES_ASKED, Repositories
from holdfast.features.workspaces.service import Workspaces

_SOURCE = "rest"

api = Operations(TAG)


class AskBody(Model):
    question: Text = Field(min_length=1, max_length=MAX_QUESTION, description="The question, in plain words")
    slugs: list[Text] = Field(
        default_factory=list,
        max_length=MAX_REPOSITORIES_ASKED,
        description="The repositories to ask; all of the workspace's when left out",
    )


class CitationAnswer(Answer):
    number: int = Field(description="As it stands in the answer, `[1]`")
    kind: str
    repository: str
    address: str
    title: str
    url: str


class AskAnswer(Answer):
    markdown: str
    citations: list[CitationAnswer]
    dropped: int = Field(description="Citations that did not hold and were taken out")
    removed: int = Field(description="Statements that no source supports and that were taken out")
    model: str
    note: str = Field(description="Why a model's own answer is not the one given")
    tokens_in: int
    tokens_out: int
    waiting: int = Field(description="Passages of the repositories that were searched by their words only, so far")


@api.post(
    BASE + "/ask",
    WRITE,
    "Ask repositories a question; the answer cites every source, and each citation was checked",
)
async def question(
    repositories: Repositories,
    workspaces: Workspaces,
    ask: Ask,
    principal: Principal,
    workspace_id: str,
    body: AskBody,
    call: Call,
) -> AskAnswer:
    # A model may take its time; it has limits of its own.
    call.unhurried()
    slugs = await chosen(repositories, workspaces, principal, workspace_id, body.slugs)
    if not slugs:
        raise Invalid("This workspace has no repository yet; add one, and ask when it is read.")
    return AskAnswer.of(await ask.ask(principal, slugs, body.question, source=_SOURCE))
