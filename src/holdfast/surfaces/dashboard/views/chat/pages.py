"""Owns `/chat`: every workspace's chats, one chat with its branches and questions, and what is done to a chat."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from holdfast.core.access import READ, RUN, WRITE
from holdfast.core.errors import NotFound
from holdfast.core.ids import new_id
from holdfast.features.chat.finding.service import ChatFinding
from holdfast.features.chat.model import Chat, ThreadMessage
from holdfast.features.chat.service import ChatService
from holdfast.features.chat.turn.selection import DEEP_THINK, RESEARCH
from holdfast.features.documents.service import DocumentService
from holdfast.features.endpoints.service import Endpoints
from holdfast.features.execution.approvals.service import Approvals
from holdfast.features.execution.enrolled import EnrolledCatalog
from holdfast.features.identity.keys.api_keys import Keys
from holdfast.surfaces.dashboard.shell.declarations import NavRow, Pages
from holdfast.surfaces.dashboard.shell.view import PageView, Reply
from holdfast.surfaces.dashboard.views.chat.asked import asked_approvals
from holdfast.surfaces.dashboard.views.chat.manager import TABS, opening_tab
from holdfast.surfaces.dashboard.views.chat.shown import shown_thread

_CHATS = 40
_FOUND = 40
_MESSAGES = 60
_FILES = 50
_ONE = "/chat/{ws}/{chat}"
pages = Pages(NavRow("Chat", "/chat/{ws}", "chat", "top", 10, READ))


@pages.get("/chat", READ)
async def everywhere(view: PageView, finding: ChatFinding) -> Reply:
    """The chats of every workspace, or messages that have some words."""
    context = await _listed(view, finding, None)
    if view.is_part:
        return view.part("chat/rows.html", **context)
    return view.page("chat/all.html", "Chats", **context)


@pages.get("/w/{ws}/chats", READ)
async def listed(view: PageView, chats: ChatService, finding: ChatFinding) -> Reply:
    """The navigator's rows of one workspace."""
    return view.part("chat/rows.html", **await _listed(view, finding, chats))


@pages.get("/chat/{ws}", READ)
async def new_chat(
    view: PageView,
    chats: ChatService,
    finding: ChatFinding,
    endpoints: Endpoints,
    keys: Keys,
    enrolled: EnrolledCatalog,
) -> Reply:
    """A chat that nothing was said in yet, offered an id of its own."""
    around = await _around(view, chats, finding, endpoints, keys, enrolled)
    return view.page("chat/one.html", "New chat", chat=None, chat_id=new_id("chat"), **around, **_nothing())


@pages.get(_ONE, READ)
async def one_chat(
    view: PageView,
    chats: ChatService,
    finding: ChatFinding,
    endpoints: Endpoints,
    keys: Keys,
    documents: DocumentService,
    approvals: Approvals,
    enrolled: EnrolledCatalog,
) -> Reply:
    """One conversation of the chat; `?at=` names a message on the branch that is wanted."""
    chat = await chats.get(view.principal, view.ws.id, view.path["chat"])
    thread = await _thread(view, chats, approvals, chat)
    if view.is_part:
        return view.part("chat/thread.html", chat=chat, **thread)
    files = await documents.page(view.principal, view.ws.id, chat_id=chat.id, limit=_FILES)
    around = await _around(view, chats, finding, endpoints, keys, enrolled)
    return view.page("chat/one.html", chat.title, chat=chat, chat_id=chat.id, **around, **thread, files=files.items)


@pages.get(_ONE + "/files", READ)
async def files(view: PageView, chats: ChatService, documents: DocumentService) -> Reply:
    """What was attached, and how far reading it is."""
    chat = await chats.get(view.principal, view.ws.id, view.path["chat"])
    page = await documents.page(view.principal, view.ws.id, chat_id=chat.id, limit=_FILES)
    return view.part("chat/files.html", files=page.items)


@pages.post(_ONE + "/rename", WRITE)
async def rename(view: PageView, chats: ChatService) -> Reply:
    chat = await chats.rename(view.principal, view.ws.id, view.path["chat"], view.given("title"))
    return view.go(_url(view, chat.id), "Renamed.")


@pages.post(_ONE + "/delete", WRITE)
async def delete(view: PageView, chats: ChatService) -> Reply:
    await chats.delete(view.principal, view.ws.id, view.path["chat"])
    return view.go(f"/chat/{quote(view.ws.slug, safe='')}?{urlencode({'deleted': view.path['chat']})}")


@pages.post(_ONE + "/restore", WRITE)
async def restore(view: PageView, chats: ChatService) -> Reply:
    chat = await chats.restore(view.principal, view.ws.id, view.path["chat"])
    return view.go(_url(view, chat.id), "It is back.")


async def _listed(view: PageView, finding: ChatFinding, chats: ChatService | None) -> dict[str, Any]:
    """Rows of the navigator: found messages where words are given, else chats by their last use."""
    query, cursor = view.query.get("q", "").strip(), view.query.get("cursor") or None
    base = "/chat" if chats is None else f"/w/{quote(view.ws.slug, safe='')}/chats"
    within = None if chats is None else view.ws.id
    slugs = {each.id: each for each in view.workspaces}
    context: dict[str, Any] = {"query": query, "everywhere": chats is None, "by_id": slugs, "found": [], "chats": []}
    if query:
        page = await finding.search(view.principal, query, workspace_id=within, limit=_FOUND, cursor=cursor)
        context["found"], after = [each for each in page.items if each.chat.workspace_id in slugs], page.next_cursor
    elif chats is None:
        recent = await finding.recent(view.principal, limit=_CHATS, cursor=cursor)
        context["chats"], after = [each for each in recent.items if each.workspace_id in slugs], recent.next_cursor
    else:
        own = await chats.list(view.principal, view.ws.id, limit=_CHATS, cursor=cursor)
        context["chats"], after = own.items, own.next_cursor
    more = {"q": query, "cursor": after} if query else {"cursor": after}
    return {**context, "here_chat": view.query.get("here", ""), "more": f"{base}?{urlencode(more)}" if after else ""}


async def _thread(view: PageView, chats: ChatService, approvals: Approvals, chat: Chat) -> dict[str, Any]:
    at = view.query.get("at") or None
    page = await chats.thread(
        view.principal, view.ws.id, chat.id, at, limit=_MESSAGES, cursor=view.query.get("cursor") or None
    )
    earlier = ""
    if page.next_cursor:
        earlier = f"{_url(view, chat.id)}?{urlencode({'at': _last(page.items), 'cursor': page.next_cursor})}"
    messages = shown_thread(view.ws, page.items)
    return {
        "messages": messages,
        "approvals": await asked_approvals(view, approvals, page.items),
        "earlier": earlier,
        "is_earlier": "cursor" in view.query,
        "may_write": _may_write(view),
        "is_last": not view.query.get("cursor"),
    }


def _last(items: Sequence[ThreadMessage]) -> str:
    if not items:
        raise NotFound("message", "")
    return items[-1].message.id


async def _around(
    view: PageView,
    chats: ChatService,
    finding: ChatFinding,
    endpoints: Endpoints,
    keys: Keys,
    enrolled: EnrolledCatalog,
) -> dict[str, Any]:
    """What stands around a conversation: the navigator, who can answer, and the column beside it."""
    served = await endpoints.list(view.principal, view.ws.project_id)
    return {
        **await _listed(view, finding, chats),
        "endpoints": served,
        "tools": RESEARCH,
        "enrolled": [each.name for each in await enrolled.listed(view.principal, view.ws.id)],
        "may_think": DEEP_THINK.missing(view.principal) is None,
        "may_run": RUN.missing(view.principal) is None,
        "deleted": view.query.get("deleted", ""),
        "manager": await opening_tab(view, keys),
        "tabs": TABS,
    }


def _nothing() -> dict[str, Any]:
    return {
        "messages": [],
        "approvals": {},
        "earlier": "",
        "is_earlier": False,
        "is_last": True,
        "files": [],
        "may_write": True,
    }


def _may_write(view: PageView) -> bool:
    return WRITE.missing(view.principal) is None


def _url(view: PageView, chat_id: str) -> str:
    return f"/chat/{quote(view.ws.slug, safe='')}/{quote(chat_id, safe='')}"
