"""Owns what agents read of the whole project: the brief, the decisions, and the prompts that begin with them."""

from collections.abc import Sequence

from holdfast.core.access import READ, READ_INTEL
from holdfast.core.clock import Clock, iso, parse_moment
from holdfast.core.errors import FieldError, Invalid
from holdfast.core.principal import Principal
from holdfast.core.resources import BRIEF, DECISIONS
from holdfast.core.tools.gateway import Gateway
from holdfast.features.intelligence.model import Decision, DecisionFilter
from holdfast.features.intelligence.service import IntelligenceService
from holdfast.features.memory.service import MemoryService
from holdfast.registry.content import Content
from holdfast.registry.prompts import Prompt, PromptArgument, PromptCall
from holdfast.registry.resources import Arguments, Resource, ResourceTemplate

DEFAULT_DECISIONS = 20
MAX_DECISIONS = 200
NEWEST = 5
ONBOARD_TOKENS = 3_000
SPANS = ("1d", "7d", "30d")


def resources(intelligence: IntelligenceService, clock: Clock) -> list[Resource | ResourceTemplate]:
    """The brief, the decisions, and a part of the decisions."""

    async def brief(principal: Principal, workspace_id: str, arguments: Arguments) -> Content:
        return Content((await intelligence.brief(principal, workspace_id)).markdown)

    async def decisions(principal: Principal, workspace_id: str, arguments: Arguments) -> Content:
        since, limit = _wanted(arguments, clock.now())
        return Content(await _decisions(intelligence, principal, workspace_id, since=since, limit=limit))

    async def spans(principal: Principal, workspace_id: str, begun: str) -> Sequence[str]:
        return [span for span in SPANS if span.startswith(begun)]

    return [
        Resource(
            uri=BRIEF,
            name="brief",
            title="Project brief",
            description="The state of the project now.",
            access=READ_INTEL,
            read=brief,
        ),
        Resource(
            uri=DECISIONS,
            name="recent-decisions",
            title="Recent decisions",
            description="Decisions, newest first. Add ?since=7d&limit=20 for a part; since may be a date.",
            access=READ_INTEL,
            read=decisions,
        ),
        ResourceTemplate(
            uri_template=DECISIONS + "{?since,limit}",
            name="recent-decisions",
            title="Recent decisions, a part",
            access=READ_INTEL,
            read=decisions,
            complete={"since": spans},
            check=_check,
        ),
    ]


def prompts(intelligence: IntelligenceService, memory: MemoryService, gateway: Gateway) -> list[Prompt]:
    """`session.init`, `brief` and `onboard`."""

    async def session(call: PromptCall) -> str:
        tools = "\n".join(f"- {tool.name}: {tool.title}" for tool in gateway.visible(call.principal, "mcp"))
        head = (
            f"You are connected to Holdfast, workspace {call.workspace_id}. It remembers this project for every agent "
            "and person on the team. Look things up there before you ask, and save what the next one will need."
            f"\n\n## Tools\n\n{tools}"
        )
        if READ_INTEL.missing(call.principal) is not None:
            return head
        return f"{head}\n\n{(await intelligence.brief(call.principal, call.workspace_id)).markdown}"

    async def brief(call: PromptCall) -> str:
        state = await intelligence.brief(call.principal, call.workspace_id)
        newest = await _decisions(intelligence, call.principal, call.workspace_id, since=None, limit=NEWEST)
        return f"{state.markdown}\n\n## Newest decisions\n\n{newest}"

    async def onboard(call: PromptCall) -> str:
        topic = call.arguments["topic"]
        about = topic[:1000]
        brief = await intelligence.brief(call.principal, call.workspace_id, focus=about)
        if not topic:
            return f"No topic was named. Ask which topic to get to know; meanwhile, the project:\n\n{brief.markdown}"
        found = await intelligence.analyze(call.principal, call.workspace_id, topic=about, budget_tokens=ONBOARD_TOKENS)
        return f"# What we know about {topic[:200]}\n\n{found.markdown}\n\n{brief.markdown}"

    async def slugs(principal: Principal, workspace_id: str, begun: str) -> Sequence[str]:
        return await memory.slugs(principal, workspace_id, begun)

    return [
        Prompt(
            name="session.init",
            title="Start a session",
            description="Tell the model where it is: the workspace, its tools, and the state of the project.",
            access=READ,
            write=session,
        ),
        Prompt(
            name="brief",
            title="Project brief",
            description="The state of the project, with the five newest decisions.",
            access=READ_INTEL,
            write=brief,
        ),
        Prompt(
            name="onboard",
            title="Get to know a topic",
            description="What the workspace knows about a topic: memories, related work, recent activity.",
            access=READ_INTEL,
            arguments=(PromptArgument("topic", "What to learn about", complete=slugs),),
            write=onboard,
        ),
    ]


async def _decisions(
    intelligence: IntelligenceService, principal: Principal, workspace_id: str, *, since: int | None, limit: int
) -> str:
    """Decisions as lines, newest first."""
    page = await intelligence.decisions.page(principal, workspace_id, DecisionFilter(since=since), limit=limit)
    return "\n".join(_line(decision) for decision in page.items) or "No decisions on record yet."


def _line(decision: Decision) -> str:
    why = " ".join(decision.rationale.split())
    reason = f": {why}" if why else ""
    day = iso(decision.decided_at)[:10]
    return f"- {day} **{decision.title}** ({decision.status}, {decision.id}){reason}"


def _check(arguments: Arguments) -> None:
    _wanted(arguments, now=0)


def _wanted(arguments: Arguments, now: int) -> tuple[int | None, int]:
    """From which moment on, and how many."""
    since, limit = arguments.get("since"), arguments.get("limit", str(DEFAULT_DECISIONS))
    moment = None if since is None else parse_moment(since, "since", now=now)
    if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit) <= MAX_DECISIONS:
        raise _unreadable("limit", f"limit is a number from 1 to {MAX_DECISIONS}.")
    return moment, int(limit)


def _unreadable(field: str, problem: str) -> Invalid:
    return Invalid(problem, fields=[FieldError(field, problem)])
