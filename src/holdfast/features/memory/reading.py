"""Owns what agents read of memory: each memory as a resource, and the prompt that turns a note into one."""

from collections.abc import Sequence

from holdfast.core.access import READ, WRITE
from holdfast.core.clock import iso
from holdfast.core.paging import Page
from holdfast.core.principal import Principal
from holdfast.core.resources import MEMORY, memory_uri
from holdfast.features.memory.model import Memory
from holdfast.features.memory.service import MemoryService
from holdfast.registry.content import Content
from holdfast.registry.prompts import Prompt, PromptArgument, PromptCall
from holdfast.registry.resources import Arguments, ListedResource, ResourceTemplate

LINKS = 10


def resources(memory: MemoryService) -> list[ResourceTemplate]:
    """Memories by slug."""

    async def read(principal: Principal, workspace_id: str, arguments: Arguments) -> Content:
        return Content(_markdown(await memory.get(principal, workspace_id, arguments["slug"])))

    async def page(principal: Principal, workspace_id: str, limit: int, cursor: str | None) -> Page[ListedResource]:
        found = await memory.list(principal, workspace_id, limit=limit, cursor=cursor)
        return found.map(_listed)

    async def slugs(principal: Principal, workspace_id: str, begun: str) -> Sequence[str]:
        return await memory.slugs(principal, workspace_id, begun)

    return [
        ResourceTemplate(
            uri_template=MEMORY + "{slug}",
            name="memory",
            title="A memory",
            access=READ,
            read=read,
            page=page,
            complete={"slug": slugs},
        )
    ]


def prompts(memory: MemoryService) -> list[Prompt]:
    """`save-this`."""

    async def form(call: PromptCall) -> str:
        recent = await memory.list(call.principal, call.workspace_id, limit=LINKS)
        return (
            "Save this note as a memory with xerotier.memory.save. Write it so that a colleague who was not here "
            "understands it, choose a category, and name related memories where they fit.\n\n"
            f"content: {call.arguments['note'] or '(ask what to save)'}\n"
            f"category: (fact, decision, convention, gotcha, …)\n{_links([each.slug for each in recent.items])}"
        )

    return [
        Prompt(
            name="save-this",
            title="Save a note",
            description="Turn a note into a memory, with recent memories to link it to.",
            access=WRITE,
            arguments=(PromptArgument("note", "What to remember"),),
            write=form,
        )
    ]


def _markdown(found: Memory) -> str:
    state = "" if found.status == "current" else f"**{found.status}** {found.status_note}\n\n"
    tags = f"\nTags: {', '.join(found.tags)}" if found.tags else ""
    source = f"\nSource: {found.source}" if found.source else ""
    author, day = found.author_name or found.author, iso(found.true_from)[:10]
    facts = f"Category: {found.category}. By {author}, {day}.{tags}{source}"
    return f"# {found.title}\n\n{state}{found.content}\n\n{facts}"


def _listed(found: Memory) -> ListedResource:
    return ListedResource(
        uri=memory_uri(found.slug),
        name=found.slug,
        title=found.title,
        description=found.category,
        size_bytes=len(found.content.encode()),
    )


def _links(slugs: Sequence[str]) -> str:
    if not slugs:
        return "related: (no memories yet)"
    return "related: (any of these)\n" + "\n".join(f"- {slug}" for slug in slugs)
