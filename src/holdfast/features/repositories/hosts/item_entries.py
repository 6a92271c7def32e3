"""Owns how pull requests, issues, releases and discussions become entries of the search index."""

from collections.abc import Iterator
from itertools import chain, islice

from holdfast.engines.extract.chunk import chunk_paragraphs, pack
from holdfast.engines.search import Entry
from holdfast.features.repositories.history.entries import MOST_PATHS, entry_id
from holdfast.features.repositories.model import Item, Remark, Repository

MOST_PARTS = 120
"""Passages of one item that are searched; the whole is kept with the item."""


def item_entries(repository: Repository, item: Item, now: int) -> Iterator[Entry]:
    """An item by its words, and by what people said below it."""
    files = list(item.files[:MOST_PATHS])
    meta = {
        "repository": repository.slug,
        "number": item.number,
        "url": item.url,
        "state": item.state,
        **({"sha": item.commit} if item.commit else {}),
        **({"files": files} if files else {}),
    }
    for part, passage in enumerate(islice(_passages(item), MOST_PARTS)):
        yield Entry(
            workspace_id=repository.workspace_id,
            type=item.kind,
            id=entry_id(repository.id, item.number),
            title=_title(item),
            text=passage,
            learned_at=min(item.updated_at, now),
            part=part,
            occurred_at=item.merged_at or item.created_at,
            author=item.author,
            source=entry_id(repository.id, f"{item.kind}/{item.number}"),
            position=part,
            meta=meta,
            collection=repository.id,
        )


def _title(item: Item) -> str:
    if item.kind == "release":
        return item.title if item.number in item.title else f"{item.title} ({item.number})"
    return f"{item.title} (#{item.number})"


def _passages(item: Item) -> Iterator[str]:
    written = chunk_paragraphs(f"{item.body.strip()}\n\n{_facts(item)}".splitlines())
    return chain(written, pack(_said(remark) for remark in item.remarks if remark.body.strip()))


def _facts(item: Item) -> str:
    named = item.files[:MOST_PATHS]
    more = len(item.files) - len(named)
    facts = [
        f"Labels: {', '.join(item.labels)}." if item.labels else "",
        f"Files: {', '.join(named)}{f' and {more} more' if more else ''}." if named else "",
        f"{item.kind.replace('_', ' ').capitalize()} {item.number} by {item.author}, {item.state}.",
    ]
    return " ".join(fact for fact in facts if fact)


def _said(remark: Remark) -> str:
    line = f":{remark.line}" if remark.line is not None else ""
    place = f" on {remark.path}{line}" if remark.path else ""
    return f"{remark.author}{place}: {remark.body.strip()}"
