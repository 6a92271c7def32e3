"""Owns `holdfast repos ask`."""

from typing import Annotated

from holdfast.core.commands import Argument, Commands, Session
from holdfast.features.ask.service import Ask
from holdfast.features.repositories.commands.finding import Among, slugs_of, tame
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
    session.out.record(
        {
            "question": given.question,
            "repositories": list(slugs),
            "markdown": answer.markdown,
            "citations": [
                {
                    "number": each.number,
                    "kind": each.kind,
                    "repository": each.repository,
                    "address": each.address,
                    "title": each.title,
                    "url": each.url,
                }
                for each in answer.citations
            ],
            "dropped": answer.dropped,
            "removed": answer.removed,
            "model": answer.model,
            "note": answer.note,
            "tokens_in": answer.tokens_in,
            "tokens_out": answer.tokens_out,
            "waiting": answer.waiting,
        },
        [tame(answer.markdown)],
    )
