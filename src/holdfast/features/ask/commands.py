"""Owns `holdfast repos ask`."""

from typing import Annotated

from holdfast.core.commands import Argument, Commands, Session
from holdfast.core.text.printable import printable
from holdfast.features.ask.operations import AskAnswer
from holdfast.features.ask.service import Ask
from holdfast.features.repositories.commands.finding import Among, slugs_of
from holdfast.features.repositories.service import Repositories

repos = Commands("repos", help="Questions to repositories.")

_SOURCE = "cli"


class Question(Among):
    """What `ask` is given."""

    question: Annotated[str, Argument()]


@repos.command("ask", help="Answer a question from the history and the files, with every source cited.")
async def ask(session: Session, repositories: Repositories, service: Ask, given: Question) -> None:
    slugs = await slugs_of(session, repositories, given)
    answer = await service.ask(session.principal, slugs, given.question, source=_SOURCE)
    asked = {"question": given.question, "repositories": list(slugs)}
    session.out.record({**asked, **AskAnswer.of(answer).model_dump()}, [printable(answer.markdown)])
