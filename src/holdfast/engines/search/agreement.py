"""Owns which words an entry is found by, and the proof that those stored with it are they."""

from collections.abc import Callable, Sequence

from holdfast.engines.search import analyser
from holdfast.engines.search.keeper import embedded_text
from holdfast.storage.database import Row, Tx

PAGE = 500


def indexed_words(title: str, text: str, author: str) -> list[str]:
    """The words of an entry's title, text and author."""
    return analyser.words(embedded_text(title, text)) + (analyser.words(author) if author else [])


def wrong_words(tx: Tx, query: str, right: Callable[[Row, Sequence[str]], bool], shelf: int | None) -> list[str]:
    """Analyse every text again and compare: the complaint, if there is one.

    The query takes `shelf`, `after` and `limit`; it gives rows by number: title, text, author and what `right` needs.
    """
    wrong, after = 0, 0
    while rows := tx.all(query, {"shelf": shelf, "after": after, "limit": PAGE}):
        wrong += sum(not right(row, indexed_words(row["title"], row["text"], row["author"])) for row in rows)
        after = int(rows[-1]["number"])
    return [f"{wrong} entries whose words are not those of their text"] if wrong else []
