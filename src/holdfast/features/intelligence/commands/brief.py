"""Owns `holdfast brief` and `holdfast analyze`."""

from typing import Annotated

from pydantic import Field

from holdfast.core.commands import Argument, InWorkspace, Session, command
from holdfast.features.intelligence.briefing.brief import item_json
from holdfast.features.intelligence.briefing.budget import DEFAULT_BUDGET, MAX_BUDGET, MIN_BUDGET
from holdfast.features.intelligence.model import SECTIONS
from holdfast.features.intelligence.service import IntelligenceService

_Tokens = Annotated[int, Field(ge=MIN_BUDGET, le=MAX_BUDGET, description="The longest answer, in tokens.")]


class Focus(InWorkspace):
    """What `brief` is given."""

    focus: str = Field("", description="What you are about to do; it comes first.")
    tokens: _Tokens = DEFAULT_BUDGET


@command("brief", help="Say where the project stands.")
async def brief(session: Session, service: IntelligenceService, given: Focus) -> None:
    id = await session.workspace(given.workspace)
    found = await service.brief(session.principal, id, focus=given.focus, budget_tokens=given.tokens)
    record = {
        "workspace_id": found.workspace_id,
        **{name: [item_json(item) for item in found.sections[name]] for name in SECTIONS},
        "omitted": dict(found.omitted),
        "markdown": found.markdown,
        "tokens": found.tokens,
    }
    session.out.record(record, [found.markdown.rstrip("\n")])


class Topic(InWorkspace):
    """What `analyze` is given."""

    topic: Annotated[str, Argument()] = ""
    tokens: _Tokens = DEFAULT_BUDGET


@command("analyze", help="Synthesize what the workspace knows about a topic, with sources.")
async def analyze(session: Session, service: IntelligenceService, given: Topic) -> None:
    id = await session.workspace(given.workspace)
    found = await service.analyze(session.principal, id, topic=given.topic, budget_tokens=given.tokens)
    record = {
        "markdown": found.markdown,
        "sources": [
            {"n": number, "type": source.type, "id": source.id, "title": source.title}
            for number, source in enumerate(found.sources, 1)
        ],
        "mode": found.mode,
        "tokens": found.tokens,
    }
    session.out.record(record, [found.markdown.rstrip("\n")])
