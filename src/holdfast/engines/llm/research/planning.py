"""Owns the plan of a deep research: its sub-tasks, read leniently from what a model wrote, and the site it is about."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.engines.llm.model import Json

FEWEST, MOST = 3, 7
MOST_TITLE = 100
MOST_QUERY = 400
MOST_TARGETS = 3

INSTRUCTIONS = (
    "Plan research that answers the person's last question. Split it into {fewest} to {most} sub-tasks that can be "
    "done one after the other, each with one specific search question that makes sense alone, and the tools that suit "
    "it, of: {tools}. Answer with one JSON object and nothing else: "
    '{{"title": "…", "subtasks": [{{"query": "…", "tools": ["…"]}}]}}'
)

_READ = 40_000
_TRIES = 24
_LISTS = ("subtasks", "sub_tasks", "tasks", "steps", "plan", "questions", "queries")
_QUERIES = ("query", "question", "search_question", "task", "subtask", "description", "title", "name")
_BULLET = re.compile(r"^\s*(?:\d{1,2}[.)]|[-*•])\s+(.+)$", re.M)
_PARTS = re.compile(r"(?<=[?;])\s+|\n+")
_URL = re.compile(r"https?://[^\s<>\"'`]+", re.I)
_DOMAIN = re.compile(
    r"(?<![@\w./-])((?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+"
    r"(?:com|org|net|io|dev|ai|app|edu|gov|eu|de|fr|uk|info)(?:/[^\s<>\"'`]*)?)(?![\w-])",
    re.I,
)
_FACETS = ("{}", "Facts, figures and recent developments: {}", "Limits, criticism and alternatives: {}")


@dataclass(frozen=True, slots=True)
class SubTask:
    """One question of the plan."""

    id: str
    query: str
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What is looked into, in order."""

    title: str
    subtasks: tuple[SubTask, ...]

    def as_json(self) -> Json:
        tasks = [{"id": task.id, "query": task.query, "tools": list(task.tools)} for task in self.subtasks]
        return {"title": self.title, "subtasks": tasks}


def plan_from_json(value: Json) -> Plan:
    """A plan as it was kept."""
    tasks = (SubTask(task["id"], task["query"], tuple(task["tools"])) for task in value["subtasks"])
    return Plan(value["title"], tuple(tasks))


def read_plan(text: str, question: str, tools: Sequence[str]) -> Plan:
    """The plan in a model's answer, cut and filled up to 3–7 sub-tasks; the plain one where there is none."""
    plain = plain_plan(question)
    title, found = "", list[tuple[str, tuple[str, ...]]]()
    for value in _values(text[:_READ]):
        title, found = _title(value), list(_tasks(value, tools))
        if found:
            break
    if not found:
        found = [(query, ()) for query in map(_tidy, _BULLET.findall(text[:_READ])) if query]
    distinct = {query.casefold(): (query, names) for query, names in reversed(found)}
    kept = list(reversed(distinct.values()))[:MOST]
    for task in plain.subtasks:
        if len(kept) >= FEWEST:
            break
        if task.query.casefold() not in distinct:
            kept.append((task.query, ()))
    return _plan(title or plain.title, kept)


def plain_plan(question: str) -> Plan:
    """A plan from the question's own words: its parts where it has several, the usual facets where it has one."""
    whole = _tidy(question)
    parts = [part for part in map(_tidy, _PARTS.split(question)) if len(part.split()) > 1]
    queries = list(dict.fromkeys(parts))[:MOST] if len(parts) > 1 else []
    for facet in _FACETS:
        if len(queries) >= FEWEST:
            break
        query = _tidy(facet.format(whole))
        if query not in queries:
            queries.append(query)
    return _plan(whole, [(query, ()) for query in queries])


def targets(question: str) -> list[str]:
    """The sites that a question is about, as addresses."""
    found = [url.rstrip(".,;:!?)]}'\"") for url in _URL.findall(question)]
    for domain in _DOMAIN.findall(_URL.sub(" ", question)):
        found.append("https://" + domain.rstrip(".,;:!?)]}"))
    return list(dict.fromkeys(found))[:MOST_TARGETS]


def _plan(title: str, tasks: Sequence[tuple[str, tuple[str, ...]]]) -> Plan:
    numbered = (SubTask(str(number), query, names) for number, (query, names) in enumerate(tasks, 1))
    return Plan(_cut(title, MOST_TITLE), tuple(numbered))


def _values(text: str) -> Iterator[Any]:
    """Every JSON object or list in a text, outermost first, whatever is written around it."""
    decoder, at = json.JSONDecoder(), 0
    for _ in range(_TRIES):
        begin = re.compile(r"[{\[]").search(text, at)
        if begin is None:
            return
        try:
            value, at = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError):
            at = begin.end()
        else:
            yield value


def _title(value: Any) -> str:
    found = value.get("title") if isinstance(value, dict) else None
    return _tidy(found) if isinstance(found, str) else ""


def _tasks(value: Any, tools: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(value, dict):
        listed = next((value[name] for name in _LISTS if isinstance(value.get(name), (list, dict))), None)
        if isinstance(listed, dict):
            yield from _tasks(listed, tools)
            return
        value = listed
    for item in value if isinstance(value, list) else ():
        if isinstance(item, str) and _tidy(item):
            yield _tidy(item), ()
        elif isinstance(item, dict):
            query = next((_tidy(item[name]) for name in _QUERIES if isinstance(item.get(name), str)), "")
            named = item.get("tools")
            if query:
                chosen = [name for name in named if name in tools] if isinstance(named, list) else []
                yield query, tuple(dict.fromkeys(chosen))


def _tidy(text: str) -> str:
    return _cut(" ".join(text.split()).strip("*_# "), MOST_QUERY)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
