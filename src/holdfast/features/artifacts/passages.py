"""Owns what search is told of an artifact: its passages, their words read before the transaction that keeps them."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.engines.extract.chunk import Chunk, chunk_markdown, chunk_text
from holdfast.engines.search import Entry, SearchEngine
from holdfast.features.artifacts.model import Artifact

TYPE = "artifact"
"""What search calls these entries."""
_BINARY, _NEXT_FILE = "GIT binary patch", "diff --git "


@dataclass(frozen=True, slots=True)
class Passages:
    """An artifact's text in parts, with their words as they are with this title."""

    title: str
    texts: Sequence[str]
    codes: Sequence[bytes | None]


def passages_of(search: SearchEngine, identifier: str, title: str, type: str, content: str) -> Passages:
    """What there is to find; an artifact without words is still found by its title. Takes seconds for long texts."""
    chunks = _chunks(type, content) or [Chunk(identifier)]
    texts = [f"{chunk.heading}\n\n{chunk.text}" if chunk.heading else chunk.text for chunk in chunks]
    return Passages(title, texts, [search.codes(title, text) for text in texts])


def entries_of(artifact: Artifact, author: str, passages: Passages) -> list[Entry]:
    """One entry per passage. Under another title than they were read with their words are read again."""
    meta = {"identifier": artifact.identifier, "artifact_type": artifact.type, "version": artifact.version}
    if artifact.chat_id is not None:
        meta["chat_id"] = artifact.chat_id
    return [
        Entry(
            workspace_id=artifact.workspace_id,
            type=TYPE,
            id=artifact.id,
            title=artifact.title,
            text=text,
            learned_at=artifact.updated_at,
            part=number,
            author=author,
            source=artifact.id,
            position=number,
            meta=meta,
            codes=codes if passages.title == artifact.title else None,
        )
        for number, (text, codes) in enumerate(zip(passages.texts, passages.codes, strict=True))
    ]


def _chunks(type: str, content: str) -> list[Chunk]:
    if type == "text/markdown":
        return list(chunk_markdown(content))
    if type in ("text/html", "image/svg+xml"):
        content = _without_tags(content)
    if type == "text/x-diff":
        content = _without_binaries(content)
    return list(chunk_text(content))


def _without_binaries(diff: str) -> str:
    """A diff as git makes them, without what spells out binary files: half a million words that nobody looks for."""
    said, is_binary = [], False
    for line in diff.splitlines():
        is_binary = line == _BINARY or (is_binary and not line.startswith(_NEXT_FILE))
        if not is_binary:
            said.append(line)
    return "\n".join(said)


def _without_tags(markup: str) -> str:
    """The words between the tags, scripts and styles left out; one pass, however the markup is broken."""
    first, *rest = markup.split("<")
    words = [first]
    unseen = ""
    for piece in rest:
        tag, _, following = piece.partition(">")
        name = tag[:8].lower()
        if unseen:
            unseen = "" if name.startswith(f"/{unseen}") else unseen
        else:
            unseen = next((silent for silent in ("script", "style") if name.startswith(silent)), "")
        if not unseen:
            words.append(following)
    return html.unescape(" ".join(words))
