"""Owns a message as the page shows it: rendered words, cards of what ran, and sources that open beside the answer."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup

from holdfast.features.chat.answers import answer_text
from holdfast.features.chat.model import ChatMessage, ChatQuestion, ThreadMessage
from holdfast.features.chat.turn.trail import text_of
from holdfast.features.workspaces.model import Workspace
from holdfast.surfaces.dashboard.shell.markdown import rendered

_SOURCES = re.compile(r"^(?:#{1,4}\s*)?Sources:?\s*$", re.MULTILINE)
_SOURCE = re.compile(r"^\s*(?:[-*]\s+)?\[(\d{1,4})\]\s+(.+)$")
_PLACE = re.compile(r"^(?P<title>.+?)\s+(?:\((?P<where>[^()\s]+(?:\s[^()\s]+)?)\)|[–-]\s(?P<address>\S+))$")
_WEB = re.compile(r"https?://\S+")
_TAG = re.compile(r"(<[^>]+>)")
_MARK = re.compile(r"\[(\d{1,4})\]")
_BESIDE = frozenset({"memory", "decision", "document", "artifact"})
_BY_ID = {"mem": "memory", "dec": "decision", "doc": "document", "art": "artifact"}
"""What an id is of, by its first letters: results of tools name their sources so."""
_TELLING = ("query", "expression", "url", "urls", "title", "content", "question", "identifier")
_LONGEST_SUMMARY = 160
_OPENS_BESIDE = Markup(
    '<a class="cite" href="{0}" hx-get="{0}" hx-target="#manager" hx-swap="innerHTML" title="{1}">{2}</a>'
)
_OPENS_ELSEWHERE = Markup(
    '<a class="cite" href="{0}" target="_blank" rel="noopener noreferrer nofollow" title="{1}">{2}</a>'
)


@dataclass(frozen=True, slots=True)
class CitedSource:
    """What a number in an answer means, and where that is."""

    number: int
    title: str
    url: str
    """A page of the web, or the part that the column beside shows; empty where there is none."""
    beside: bool


@dataclass(frozen=True, slots=True)
class ToolCard:
    """A call that ran for an answer."""

    name: str
    summary: str
    arguments: str
    result: str
    failed: bool
    truncated: bool
    artifact_id: str
    """The artifact that it made or changed; empty for others."""
    artifact_title: str


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """One message, ready to be shown."""

    message: ChatMessage
    text: str
    is_plain: bool
    """Whether it is words alone, which can be edited and sent again."""
    html: Markup
    cards: Sequence[ToolCard]
    sources: Sequence[CitedSource]
    question: ChatQuestion | None
    place: int
    """Its place among the messages that follow the same one, counted from 1."""
    siblings: Sequence[str]
    is_outcome: bool = False
    """Whether it is what came of a call that waited for a person, rather than what somebody said."""

    @property
    def before(self) -> str:
        """The branch to the left."""
        return self.siblings[self.place - 2] if self.place > 1 else ""

    @property
    def after(self) -> str:
        """The branch to the right."""
        return self.siblings[self.place] if self.place < len(self.siblings) else ""


def shown_thread(workspace: Workspace, messages: Sequence[ThreadMessage]) -> list[ShownMessage]:
    """The messages of a thread as people see them."""
    outcomes = {
        (each.message.id, answer_text(each.question.answer))
        for each in messages
        if each.question is not None and each.question.is_approval and each.question.state != "pending"
    }
    return [
        shown(
            workspace,
            each,
            is_outcome=each.message.role == "user"
            and (each.message.parent_id, text_of(each.message.message)) in outcomes,
        )
        for each in messages
    ]


def shown(workspace: Workspace, each: ThreadMessage, *, is_outcome: bool = False) -> ShownMessage:
    """A message of a thread as people see it."""
    message = each.message
    text = text_of(message.message)
    words, sources = text, list[CitedSource]()
    if message.role == "assistant":
        words, sources = _without_sources(workspace, text, _recalled(message.calls))
    calls = [call for call in message.calls if call.get("name") != "ask_user"]
    if each.question is not None and each.question.is_approval:
        # The card beneath says it again, with something to decide with; the call itself has not run.
        tool = str(each.question.question.get("tool_name", ""))
        words = _without_question(words, f"{tool} needs your approval")
        calls = [call for call in calls if call.get("name") != tool]
    elif each.question is not None:
        # The form beneath says it again, with something to answer in.
        words = _without_question(words, str(each.question.question.get("question", "")))
    return ShownMessage(
        message=message,
        text=text,
        is_plain=isinstance(message.message.get("content"), str),
        html=_with_marks(rendered(words), sources) if message.role == "assistant" else Markup(""),
        cards=[_card(call) for call in calls],
        sources=sources,
        question=each.question,
        place=list(each.siblings).index(message.id) + 1,
        siblings=each.siblings,
        is_outcome=is_outcome,
    )


def _without_question(text: str, question: str) -> str:
    at = text.rfind(question) if question else -1
    return text[:at].rstrip() if at >= 0 else text


def _recalled(calls: Sequence[Mapping[str, Any]]) -> Mapping[str, str]:
    """What the memories say that a tool found, by their ids: their citations name no more than a category."""
    found: dict[str, str] = {}
    for call in calls:
        result = _parsed(call.get("result")) if call.get("name") == "recall_memory" else None
        rows = result.get("memories") if isinstance(result, dict) else None
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict) and isinstance(row.get("content"), str):
                found[str(row.get("id"))] = row["content"]
    return found


def _without_sources(workspace: Workspace, text: str, recalled: Mapping[str, str]) -> tuple[str, list[CitedSource]]:
    """The answer before its list of sources with what comes after it, and that list."""
    headings = list(_SOURCES.finditer(text))
    if not headings:
        return text, []
    head, tail = text[: headings[-1].start()], text[headings[-1].end() :]
    lines = tail.split("\n")
    found: list[CitedSource] = []
    rest: list[str] = []
    for line in lines:
        listed = _SOURCE.match(line)
        if listed is not None:
            found.append(_source(workspace, int(listed[1]), listed[2].strip(), recalled))
        elif line.strip() and not line.lstrip().startswith(">"):
            rest.append(line)
        elif rest:
            rest.append("")
    return (f"{head.rstrip()}\n\n" + "\n".join(rest)).strip() if found else text, found


def _source(workspace: Workspace, number: int, told: str, recalled: Mapping[str, str]) -> CitedSource:
    """Where a source is, by what stands behind its title: `(memory some-slug)` or an address."""
    placed = _PLACE.match(told)
    title = placed["title"] if placed else told
    where = (placed["where"] or placed["address"]) if placed else told
    web = _WEB.fullmatch(where)
    if web is not None:
        return CitedSource(number, title, web[0], beside=False)
    kind, _, key = where.partition(" ")
    if not key:
        title = recalled.get(where, title)
        kind, key = _BY_ID.get(where.partition("_")[0], ""), where
    if placed and kind in _BESIDE and key:
        base = f"/w/{quote(workspace.slug, safe='')}/beside/source"
        return CitedSource(number, title, f"{base}?{urlencode({'type': kind, 'id': key})}", beside=True)
    return CitedSource(number, told, "", beside=False)


def _with_marks(html: Markup, sources: Sequence[CitedSource]) -> Markup:
    """The numbers in the words as links to their sources; in code they are somebody's indexes."""
    by_number = {str(each.number): each for each in sources}
    if not by_number:
        return html
    inside = 0
    parts: list[str] = []
    for part in _TAG.split(html):
        if part.startswith("<"):
            if re.match(r"<(code|pre|a)\b", part):
                inside += 1
            elif re.match(r"</(code|pre|a)>", part):
                inside -= 1
            parts.append(part)
        else:
            parts.append(part if inside else _MARK.sub(lambda mark: _mark(mark, by_number), part))
    return Markup("".join(parts))  # noqa: S704 – cleaned markup, with links whose values are escaped


def _mark(mark: "re.Match[str]", by_number: Mapping[str, CitedSource]) -> str:
    source = by_number.get(mark[1])
    if source is None or not source.url:
        return mark[0]
    link = _OPENS_BESIDE if source.beside else _OPENS_ELSEWHERE
    return str(link.format(source.url, source.title, source.number))


def _card(call: Mapping[str, Any]) -> ToolCard:
    arguments = _parsed(call.get("arguments"))
    result = _parsed(call.get("result"))
    made = result if isinstance(result, dict) else {}
    # What a tool refuses, it says to the model as its result.
    failed = bool(call.get("failed")) or isinstance(made.get("error"), str)
    summary = ""
    if isinstance(arguments, dict):
        told = next((arguments[name] for name in _TELLING if arguments.get(name)), "")
        summary = " ".join(told if isinstance(told, list) and all(isinstance(e, str) for e in told) else [str(told)])
    return ToolCard(
        name=str(call.get("name", "")),
        summary=" ".join(summary.split())[:_LONGEST_SUMMARY],
        arguments=_readable(call.get("arguments")),
        result=_readable(call.get("result")),
        failed=failed,
        truncated=bool(call.get("truncated")),
        artifact_id="" if failed else str(made.get("artifact_id") or ""),
        artifact_title=str(made.get("title") or made.get("identifier") or ""),
    )


def _parsed(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _readable(text: Any) -> str:
    value = _parsed(text)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
