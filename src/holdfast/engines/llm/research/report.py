"""Owns what of a research may be said: its answers and its report, held against what was read, and the honest rest."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.engines.llm.citations import CITATION, ReadSource, Sources
from holdfast.engines.llm.cited.markdown import inert, tidied, without_html
from holdfast.engines.llm.cited.review import Reviewed, review
from holdfast.engines.llm.extractive.embedded import FAILED, HINT, NOTHING
from holdfast.engines.llm.extractive.extracts import QuotedPassage, opening, quotes
from holdfast.engines.llm.research.findings import TaskResult, listed_sources
from holdfast.engines.llm.research.planning import Plan

MOST_WRITTEN = 60_000
"""Characters of a report that are looked at; what comes after them goes."""

_URL = r"https?://[^\s()<>\[\]\"'`|]+"
_LINKED = re.compile(rf"(?<!!)\[([^\[\]\n]*)\]\(\s*<?({_URL})>?[^()\n]*\)")
_BARE = re.compile(rf"\(?<?({_URL})>?\)?")
_BRACKETED = re.compile(r"[\[(]\s*`?([^\[\]()`\n]{1,1000})`?\s*[\])]")
_SAID_BEFORE = re.compile(r"\(?\b(?:sources?|see|from|via)\s*:\s*((?:\[\d+\][,;\s]*)+)\)?", re.I)
_LISTED = re.compile(r"^\s*(?:[-*]\s+)?\[?(\d{1,3})(?:\]|[.):])\s*:?\s*(.+)$")
_OWN_NUMBER = re.compile(r"\[(\d{1,4})\]")


@dataclass(slots=True)
class Searches:
    """How many searches and reads a research asked for, and how many of them came to nothing."""

    asked: int = 0
    failed: int = 0


def stated(answer: str, question: str, sources: Mapping[int, ReadSource]) -> str:
    """What of a sub-task's answer its sources support; it names them by address, here they become numbers."""
    return _reviewed(_numbered(answer, sources), question, sources).markdown


def checked_report(written: str, question: str, sources: Mapping[int, ReadSource]) -> tuple[str, str]:
    """What of a model's report its sources support, with them; and a remark on what was left out."""
    text = tidied(written[:MOST_WRITTEN], {}, frozenset(source.address for source in sources.values()))
    found = _reviewed(text, question, sources)
    listed = listed_sources(found.cited, sources, _quoted(text, sources)) if found.markdown else ""
    return "\n\n".join(part for part in (found.markdown, listed) if part), _remark(found)


def quoted_report(plan: Plan, results: Sequence[TaskResult], sources: Mapping[int, ReadSource]) -> str:
    """A report of quotations alone, for a server without a model or a model whose words do not hold."""
    parts = [f"# {plan.title}"]
    said, cited = set[str](), set[int]()
    for task, result in zip(plan.subtasks, results, strict=True):
        read = [sources[number] for number in result.sources if number in sources]
        found = [QuotedPassage(str(source.number), source.text, str(source.number)) for source in read]
        chosen = [quote for quote in quotes(task.query, found) or opening(found) if quote.text not in said]
        said.update(quote.text for quote in chosen)
        cited.update(int(quote.passage.source) for quote in chosen)
        lines = [f"- {inert(quote.text)} [{quote.passage.source}]" for quote in chosen]
        rest = "Nothing beyond what is said above." if read else "Nothing was found."
        parts.append(f"## {task.query}\n\n" + ("\n".join(lines) or rest))
    return "\n\n".join([*parts, *filter(None, [listed_sources(sorted(cited), sources, {})])])


def empty_report(plan: Plan, searches: Searches) -> str:
    """The report of a research that read nothing: no sentence of it could be held against anything."""
    if searches.failed:
        each = "The only search" if searches.asked == 1 else f"{_counted(searches)} searches and reads"
        why = f"{each} failed, so nothing can be said about the question. Ask again later."
    elif searches.asked:
        why = "The searches found nothing about the question."
    else:
        why = "Nothing was searched, so there is nothing that a statement could rest on."
    asked = "\n".join(f"- {task.query}" for task in plan.subtasks)
    return f"# {plan.title}\n\nThis report has no findings. {why}\n\nWhat was to be looked into:\n\n{asked}"


def failed_remark(searches: Searches) -> str:
    """A line about searches that failed, beside others that did not."""
    return f"*{_counted(searches)} searches and reads failed; what they would have found is missing.*"


def quoted_by_embedded(answer: str, sources: Sources) -> tuple[str, list[int]]:
    """The embedded model's answer without its words about itself, and the numbers of what it quotes.

    It quotes what the workspace knows, which no tool of the research read.
    """
    lines = [line for line in answer.replace(HINT, "").replace(NOTHING, "").splitlines() if FAILED not in line[:60]]
    text = "\n".join(lines).strip()
    titles = {int(own[1]): own[2] for own in map(_LISTED.match, lines) if own}
    numbers = []
    for line in lines:
        quoted = re.fullmatch(r"- (.+) \[(\d+)\]", line)
        if quoted and int(quoted[2]) in titles:
            title, source = _name(titles[int(quoted[2])])
            numbers.append(sources.add(QuotedPassage(title, quoted[1], source)))
    return text, [number for number in dict.fromkeys(numbers) if number]


def _name(listed: str) -> tuple[str, str]:
    """Title and address of a line in the embedded model's list of sources."""
    found = re.fullmatch(r"(.+) \((\S+)\)", listed)
    return (found[1], found[2]) if found else (listed, "")


def _reviewed(text: str, question: str, sources: Mapping[int, ReadSource]) -> Reviewed:
    found = review(text, question, sources)
    found.markdown = without_html(found.markdown)
    return found


def _numbered(answer: str, sources: Mapping[int, ReadSource]) -> str:
    """An answer with the numbers of sources in place of addresses, titles and numbers of its own."""
    names = _names(sources)

    def number_of(name: str) -> int:
        return names.get(name.strip().rstrip(".,;:!?").rstrip("/").casefold(), 0)

    own = {int(number): found for number, found in _own_list(answer, number_of)}
    text = _OWN_NUMBER.sub(lambda mark: f"[{own.get(int(mark[1]), 0)}]", answer)
    text = _LINKED.sub(lambda link: f"{link[1]} [{number_of(link[2])}]", text)
    text = _BARE.sub(lambda bare: f"[{number}]" if (number := number_of(bare[1])) else bare[0], text)
    text = _BRACKETED.sub(lambda name: f"[{number}]" if (number := number_of(name[1])) else name[0], text)
    return tidied(_SAID_BEFORE.sub(r"\1", text), {}, frozenset())


def _names(sources: Mapping[int, ReadSource]) -> dict[str, int]:
    titles = {source.title.strip().casefold(): source.number for source in sources.values() if source.title}
    return titles | {source.address.rstrip("/").casefold(): source.number for source in sources.values()}


def _own_list(answer: str, number_of: Callable[[str], int]) -> Iterator[tuple[int, int]]:
    """The numbers that an answer gave its sources in a list at its end, with ours."""
    for line in answer.splitlines():
        listed = _LISTED.match(line)
        if listed is None:
            continue
        title, address = _name(listed[2])
        urls = re.findall(_URL, listed[2])
        found = next(filter(None, map(number_of, [*urls, address, title])), 0)
        if found:
            yield int(listed[1]), found


def _quoted(text: str, sources: Mapping[int, ReadSource]) -> dict[int, list[str]]:
    """The words that a report copied into its citations, where they stand in the source."""
    found: dict[int, list[str]] = {}
    for citation in CITATION.finditer(text):
        quote = (citation[2] or "").strip()
        for number in map(int, citation[1].split(",")) if quote else ():
            known = found.setdefault(number, [])
            if number in sources and quote not in known and sources[number].has(quote):
                known.append(quote)
    return found


def _remark(found: Reviewed) -> str:
    parts = []
    if found.removed:
        parts.append("1 statement" if found.removed == 1 else f"{found.removed} statements")
    if found.dropped:
        parts.append("1 citation" if found.dropped == 1 else f"{found.dropped} citations")
    return f"*Left out, because nothing that was read bears it out: {', '.join(parts)}.*" if parts else ""


def _counted(searches: Searches) -> str:
    if searches.failed == searches.asked:
        return f"All {searches.asked}"
    return f"{searches.failed} of {searches.asked}"
