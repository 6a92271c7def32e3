"""Owns what the model of a deep research is asked in each phase: instructions, conversation and numbered material."""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.engines.llm.calls import Marker
from holdfast.engines.llm.citations import ReadSource
from holdfast.engines.llm.extractive.extracts import QuotedPassage, opening, quotes
from holdfast.engines.llm.model import Json
from holdfast.engines.llm.research.findings import TaskResult
from holdfast.engines.llm.research.planning import FEWEST, INSTRUCTIONS, MOST, Plan, SubTask

ANSWER_CHARACTERS = 3_000
"""Of each sub-task's answer in the material of the report."""
EXCERPT_CHARACTERS = 1_200
MATERIAL_CHARACTERS = 45_000
SITE_LINKS = 40

_SUBTASK = (
    'You research one part of a larger question: "{question}". The whole research is called "{title}". Find out what '
    "the person asks below with the tools you have{hint}, prefer primary sources, and read pages before you rely on "
    "them. Then answer briefly, with facts, figures and dates, and behind every sentence the address that it is from, "
    "in parentheses: a sentence without one is not kept. A comparison belongs in a Markdown table, the address in its "
    "last column. Say plainly what could not be found."
)
_SYNTHESIS = (
    "Write a report in Markdown that answers the person's last question, in their language, from the material of a "
    "finished research. Begin with a heading and the answer in short, then go into detail by topic, and end with what "
    "stays open. Every sentence that states something needs a citation of its own right behind it, in the form "
    '[3 "a few words copied exactly from source 3"]: the number, then words that stand in that source. A sentence '
    "without one is removed, and so is one with a number, name, version or negation that its source does not have: "
    "stay close to the words of the sources. Write no list of sources; it is added."
)
# Meant for the answer that the client gets, or for tools that are not offered here.
_NOT_INSIDE = frozenset(
    {
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "n",
        "stream_options",
        "logprobs",
        "top_logprobs",
        "web_search_options",
        "modalities",
        "audio",
        "prediction",
    }
)
_LENGTHS = frozenset({"max_tokens", "max_completion_tokens", "stop"})


def last_question(messages: Any) -> str:
    """What a person said last, as text."""
    said = [each for each in _dicts(messages) if each.get("role") == "user"]
    return _text(said[-1].get("content")).strip() if said else ""


def planning(body: Json, tools: Sequence[str], site: str) -> Json:
    """The request for a plan."""
    instructions = INSTRUCTIONS.format(fewest=FEWEST, most=MOST, tools=", ".join(tools) or "none")
    if site:
        instructions += "\n\nThe site in question was looked at already.\n" + Marker().mark("fetch_url", site)
    return {**_inside(body, _LENGTHS), "messages": _conversation(body, instructions)}


def subtask(body: Json, plan: Plan, task: SubTask, question: str, site: str) -> Json:
    """The request for one sub-task; its question stands alone, so that it is searched for as it is."""
    hint = f" (planned: {', '.join(task.tools)})" if task.tools else ""
    instructions = _SUBTASK.format(question=question[:1_000], title=plan.title, hint=hint)
    if site:
        instructions += "\n\nPages of the site in question:\n" + Marker().mark("fetch_url", site)
    messages = [{"role": "system", "content": instructions}, {"role": "user", "content": task.query}]
    return {**_inside(body, _LENGTHS), "messages": messages}


def synthesis(
    body: Json, plan: Plan, results: Sequence[TaskResult], sources: Mapping[int, ReadSource], question: str
) -> Json:
    """The request for the report: the conversation, and behind its last question the material."""
    messages = _conversation(body, _SYNTHESIS)
    number = max(number for number, message in enumerate(messages) if message["role"] == "user")
    found = Marker().mark("the research", _material(plan, results, sources, question))
    content = messages[number].get("content")
    added = f"Material for the report:\n\n{found}"
    if isinstance(content, list):
        content = [*content, {"type": "text", "text": added}]
    else:
        content = f"{_text(content)}\n\n{added}"
    messages[number] = {**messages[number], "content": content}
    return {**_inside(body, frozenset()), "messages": messages[: number + 1]}


def site_map(value: Any) -> tuple[int, str]:
    """How many pages were read of a discovery's result, and the structure of the site in lines."""
    pages = _dicts(value.get("pages")) if isinstance(value, dict) else []
    read = [page for page in pages if not page.get("error") and isinstance(page.get("url"), str)]
    lines: dict[str, str] = {page["url"]: page["url"] for page in read}
    for page in read:
        for link in _dicts(page.get("discovered_links")):
            url, text = link.get("url"), link.get("text")
            if isinstance(url, str) and len(lines) < SITE_LINKS:
                lines.setdefault(
                    url, f"{url} ({' '.join(text.split())[:80]})" if isinstance(text, str) and text else url
                )
    return len(read), "\n".join(f"- {line}" for line in lines.values())


def _material(plan: Plan, results: Sequence[TaskResult], sources: Mapping[int, ReadSource], question: str) -> str:
    parts = []
    for task, result in zip(plan.subtasks, results, strict=True):
        numbers = ", ".join(map(str, result.sources)) or "none"
        parts.append(f"## {task.query}\nSources: {numbers}\n\n{result.answer[:ANSWER_CHARACTERS] or '(no answer)'}")
    parts.append("# Sources")
    left = MATERIAL_CHARACTERS - sum(map(len, parts))
    about = " ".join([question, *(task.query for task in plan.subtasks)])
    for source in sources.values():
        shown = f"[{source.number}] {source.title}\n{source.address}\n{_excerpt(about, source)}"
        if len(shown) > left:
            break
        left -= len(shown)
        parts.append(shown)
    return "\n\n".join(parts)


def _excerpt(about: str, source: ReadSource) -> str:
    """The sentences of a source that the research is about, word for word."""
    found = [QuotedPassage(source.title, source.text, source.address)]
    chosen = quotes(about, found) or opening(found)
    return "\n".join(quote.text for quote in chosen)[:EXCERPT_CHARACTERS]


def _conversation(body: Json, instructions: str) -> list[Json]:
    """The conversation behind one system message: many models take one only, and only in front."""
    leading, said = list[str](), list[Json]()
    for message in _dicts(body.get("messages")):
        if message.get("role") in ("system", "developer"):
            leading.append(_text(message.get("content")))
        elif message.get("role") == "user" or (message.get("role") == "assistant" and message.get("content")):
            said.append({"role": message["role"], "content": message.get("content")})
    return [{"role": "system", "content": "\n\n".join([*filter(None, leading), instructions])}, *said]


def _inside(body: Json, left_out: frozenset[str]) -> Json:
    dropped = _NOT_INSIDE | left_out
    return {key: value for key, value in body.items() if key not in dropped and not key.startswith("x_")}


def _text(content: Any) -> str:
    if isinstance(content, list):
        texts = [part.get("text") for part in _dicts(content)]
        return "\n".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _dicts(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
