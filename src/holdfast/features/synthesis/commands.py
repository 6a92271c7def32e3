"""Owns `holdfast repos synthesise` and `findings`: what was read out of a repository."""

from typing import Annotated

from pydantic import Field

from holdfast.core.commands import Argument, Commands, InWorkspace, Session
from holdfast.core.text.printable import printable
from holdfast.features.repositories.commands.finding import check_within
from holdfast.features.repositories.commands.waiting import finish
from holdfast.features.repositories.service import Repositories
from holdfast.features.synthesis.model import WrittenKind, kind_of
from holdfast.features.synthesis.operations import FindingAnswer
from holdfast.features.synthesis.service import Synthesis

repos = Commands("repos", help="What was read out of repositories.")


class Again(InWorkspace):
    """What `synthesise` is given."""

    slug: Annotated[str, Argument()]
    wait: bool = Field(False, description="Return when its history can be found and has been summed up.")


@repos.command("synthesise", help="Sum a repository up again; what people edited stays theirs.")
async def synthesise(session: Session, repositories: Repositories, service: Synthesis, given: Again) -> None:
    await check_within(session, repositories, [given.slug], given.workspace)
    await finish(session, await service.start(session.principal, given.slug), wait=given.wait)


class Wanted(InWorkspace):
    """What `findings` is given."""

    slug: Annotated[str, Argument()]
    kind: WrittenKind | None = Field(None, description="Only findings of this kind.")


@repos.command(
    "findings", help="Print what was read out of a repository: architecture, decisions, hot spots, owners, glossary."
)
async def findings(session: Session, repositories: Repositories, service: Synthesis, given: Wanted) -> None:
    await check_within(session, repositories, [given.slug], given.workspace)
    found = await service.findings(session.principal, given.slug, kind_of(given.kind))
    if session.out.as_json:
        session.out.table(map(FindingAnswer.of, found), [])
        return
    for each in found:
        mark = "" if each.state == "derived" else f" ({each.state})"
        session.out.write(printable(f"# {each.title} [{each.kind}]{mark}\n\n{each.body.rstrip()}\n\n"))
    if not found:
        session.out.note("Nothing has been read out of it yet.")
