"""Owns which words a chat is found by: as they are written, whose workspace they are in, said or in the title."""

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

from holdfast.engines.search.text.analyser import written_words

MOST_WORDS = 4_000
MOST_WANTED = 8
_SAID, _TITLE = "1", "2"


def indexed(workspace_id: str, said: str, title: str) -> str:
    """The words of a message and of its chat's title, each once, as the index takes them."""
    mark = _mark(workspace_id)
    words = [f"{mark}{_SAID}{word}" for word in written_words(said, MOST_WORDS)]
    return " ".join(words + [f"{mark}{_TITLE}{word}" for word in written_words(title, MOST_WORDS)])


def retitled(workspace_id: str, words: str, title: str) -> str:
    """The indexed words of a message whose chat has another title now."""
    of_title = _mark(workspace_id) + _TITLE
    said = [word for word in words.split(" ") if not word.startswith(of_title)]
    return " ".join(said + indexed(workspace_id, "", title).split())


def wanted(text: str) -> list[str]:
    """The words to look for; what follows them in a longer word does not matter."""
    return written_words(text, MOST_WANTED)


def fts_query(workspace_ids: Sequence[str], words: Sequence[str]) -> str:
    """What FTS5 is asked: every word said or in the title, and at least one of them said."""
    found = []
    for mark in map(_mark, workspace_ids):
        every = " AND ".join(f'("{mark}{_SAID}{word}" * OR "{mark}{_TITLE}{word}" *)' for word in words)
        said = " OR ".join(f'"{mark}{_SAID}{word}" *' for word in words)
        found.append(f'("{mark}{_SAID}{words[0]}" *)' if len(words) == 1 else f"({every} AND ({said}))")
    return " OR ".join(found)


def tsquery(workspace_ids: Sequence[str], words: Sequence[str]) -> str:
    """The same for PostgreSQL."""
    found = []
    for mark in map(_mark, workspace_ids):
        every = " & ".join(f"('{mark}{_SAID}{word}':* | '{mark}{_TITLE}{word}':*)" for word in words)
        said = " | ".join(f"'{mark}{_SAID}{word}':*" for word in words)
        found.append(f"'{mark}{_SAID}{words[0]}':*" if len(words) == 1 else f"({every} & ({said}))")
    return " | ".join(found)


def place_of(text: str, words: Sequence[str]) -> int:
    """Where in a text the first of these words stands; its beginning where none does."""
    for run in re.finditer(r"\S+", text):
        if any(each.startswith(word) for each in written_words(run.group(), MOST_WORDS) for word in words):
            return run.start()
    return 0


@lru_cache(maxsize=10_000)
def _mark(workspace_id: str) -> str:
    """What a workspace's words begin with: letters and digits, as long for each."""
    return base64.b32encode(hashlib.sha256(workspace_id.encode()).digest())[:10].decode().lower()
