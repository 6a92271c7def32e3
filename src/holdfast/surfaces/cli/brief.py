"""Owns `holdfast brief`, `holdfast analyze` and `holdfast timeline`."""

import click

from holdfast.features.intelligence.brief import item_json
from holdfast.features.intelligence.budget import DEFAULT_BUDGET, MAX_BUDGET, MIN_BUDGET
from holdfast.features.intelligence.model import SECTIONS
from holdfast.surfaces.cli.frame import Session, command, workspace_option
from holdfast.surfaces.cli.milestones import timeline

__all__ = ["analyze", "brief", "timeline"]

_tokens = click.option(
    "--tokens",
    type=click.IntRange(MIN_BUDGET, MAX_BUDGET),
    default=DEFAULT_BUDGET,
    show_default=True,
    help="The longest answer, in tokens.",
)
_commands = click.Group()


@command(
    _commands,
    "brief",
    workspace_option,
    click.option("--focus", default="", help="What you are about to do; it comes first."),
    _tokens,
    help="Say where the project stands.",
)
async def brief(session: Session, workspace: str | None, focus: str, tokens: int) -> None:
    id = await session.workspace(workspace)
    found = await session.services.intelligence.brief(session.principal, id, focus=focus, budget_tokens=tokens)
    record = {
        "workspace_id": found.workspace_id,
        **{name: [item_json(item) for item in found.sections[name]] for name in SECTIONS},
        "omitted": dict(found.omitted),
        "markdown": found.markdown,
        "tokens": found.tokens,
    }
    session.out.record(record, [found.markdown.rstrip("\n")])


@command(
    _commands,
    "analyze",
    click.argument("topic", required=False, default=""),
    workspace_option,
    _tokens,
    help="Synthesize what the workspace knows about a topic, with sources.",
)
async def analyze(session: Session, topic: str, workspace: str | None, tokens: int) -> None:
    id = await session.workspace(workspace)
    found = await session.services.intelligence.analyze(session.principal, id, topic=topic, budget_tokens=tokens)
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
