"""Owns how cases come in from elsewhere, from issues and checklists, and go out as JSON lines and Markdown."""

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal

from holdfast.core.errors import FieldError, Invalid, NotFound
from holdfast.core.principal import Principal
from holdfast.features.cases.answers import CaseAnswer
from holdfast.features.cases.model import MAX_BODY, Case, NewCase
from holdfast.features.cases.reading import CaseReading
from holdfast.features.cases.service import CaseService
from holdfast.features.intelligence.model import MAX_TITLE
from holdfast.features.repositories import store as repository_store
from holdfast.features.repositories.hosts import item_store
from holdfast.features.repositories.model import Item, Repository
from holdfast.storage.database import Tx

ExportFormat = Literal["jsonl", "markdown"]
MOST_ITEMS = 500
_ISSUE = re.compile(r"(?P<name>[\w.-]+(?:/[\w.-]+)*)#(?P<number>\d{1,18})")
_ITEM = re.compile(r"^(?P<indent>[ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+\[(?P<mark>[ xX])\]\s+(?P<text>\S.*)$")
_TAB = 4


class CaseExchange:
    """Brings cases in and out."""

    def __init__(self, cases: CaseService, reading: CaseReading) -> None:
        self._cases = cases
        self._reading = reading

    async def from_issue(
        self, principal: Principal, workspace_id: str, name: str, fields: Mapping[str, Any] = {}
    ) -> Case:
        """A case from `owner/repo#12` of a repository in memory; its checklist becomes criteria. `fields` win."""
        named = _ISSUE.fullmatch(name.strip())
        if named is None:
            raise Invalid("This is no issue.", fields=[FieldError("from", "write it like acme/shop#12")])
        repository, item = await self._cases.base.database.read(
            lambda tx: self._issue(tx, principal, workspace_id, named["name"], named["number"])
        )
        bug = any("bug" in label.lower() for label in item.labels)
        made: dict[str, Any] = {
            "title": " ".join(item.title.split())[:MAX_TITLE] or name,
            "body": f"{item.body[: MAX_BODY - 500]}\n\n{item.url}".strip(),
            "kind": "bug" if bug else "task",
            "criteria": tuple(dict.fromkeys(each.text for each in checklist(item.body)))[:100],
            "labels": tuple(label.replace('"', "") for label in item.labels)[:50],
            "repository": repository.slug,
        }
        new = NewCase(**{**made, **fields}, source=f"{repository.full_name or repository.slug}#{item.number}")
        return await self._cases.add(principal, workspace_id, new)

    async def from_checklist(self, principal: Principal, workspace_id: str, markdown: str) -> Sequence[Case]:
        """A case for each open item of a checklist; items below one are its criteria."""
        items = checklist(markdown)
        if len(items) > MOST_ITEMS:
            raise Invalid(f"The checklist has {len(items)} items; at most {MOST_ITEMS} are taken at once.")
        made: list[Case] = []
        for place, item in enumerate(items):
            if item.depth > 0 or item.done:
                continue
            below = []
            for each in items[place + 1 :]:
                if each.depth == 0:
                    break
                below.append(each.text)
            new = NewCase(title=item.text[:MAX_TITLE], criteria=tuple(dict.fromkeys(below)))
            made.append(await self._cases.add(principal, workspace_id, new))
        return made

    async def export(self, principal: Principal, workspace_id: str, format: ExportFormat) -> AsyncIterator[str]:
        """Every case whole, oldest last."""
        cursor: str | None = None
        while True:
            page = await self._cases.page(principal, workspace_id, limit=200, cursor=cursor)
            for case in page.items:
                whole = await self._reading.answer(principal, case)
                yield _line(whole) if format == "jsonl" else _markdown(whole)
            cursor = page.next_cursor
            if cursor is None:
                return

    def _issue(
        self, tx: Tx, principal: Principal, workspace_id: str, name: str, number: str
    ) -> tuple[Repository, Item]:
        workspace = self._cases.base.enter(tx, principal, workspace_id)
        known = repository_store.of_workspace(tx, workspace)
        found = next((each for each in known if name in (each.full_name, each.slug)), None)
        if found is None:
            names = ", ".join(each.full_name or each.slug for each in known[:10]) or "none"
            problem = f"{name!r} is no repository of this workspace; there are: {names}"
            raise Invalid(f"The repository is not known: {problem}.", fields=[FieldError("from", problem)])
        items = item_store.numbered(tx, found.id, number)
        issue = next((each for each in items if each.kind == "issue"), items[0] if items else None)
        if issue is None:
            raise NotFound("issue", f"{name}#{number}")
        return found, issue


class ChecklistItem:
    """One line of a checklist."""

    __slots__ = ("depth", "done", "text")

    def __init__(self, depth: int, done: bool, text: str) -> None:
        self.depth = depth
        self.done = done
        self.text = text


def checklist(markdown: str) -> list[ChecklistItem]:
    """The items of Markdown's task lists, in order; `depth` 0 stands by itself. Code blocks are not looked into."""
    found: list[ChecklistItem] = []
    indents: list[int] = []
    fenced = False
    for line in markdown.splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        item = None if fenced else _ITEM.match(line)
        if item is None:
            continue
        indent = len(item["indent"].expandtabs(_TAB))
        while indents and indents[-1] >= indent:
            indents.pop()
        found.append(ChecklistItem(len(indents), item["mark"] != " ", " ".join(item["text"].split())))
        indents.append(indent)
    return found


def _line(case: CaseAnswer) -> str:
    return json.dumps(case.model_dump(mode="json"), ensure_ascii=False) + "\n"


def _markdown(case: CaseAnswer) -> str:
    done = ("passed", "word")
    lines = [f"## {case.title}", "", f"`{case.id}` · {case.state} · {case.kind} · priority {case.priority}", ""]
    lines += [case.body, ""] if case.body else []
    lines += [f"- [{'x' if each.verdict in done else ' '}] {each.text}" for each in case.criteria]
    lines += ["", *(f"- {each.type} `{each.case_id}`" for each in case.links)] if case.links else []
    return "\n".join(lines).rstrip() + "\n\n"
