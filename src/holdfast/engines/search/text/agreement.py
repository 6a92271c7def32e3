"""Owns the proof that the words stored with entries are those of their texts."""

from collections.abc import Callable, Sequence

from holdfast.engines.search.keeper import embedded_text
from holdfast.engines.search.text import analyser
from holdfast.storage.database import Row, Tx

PAGE = 500


def wrong_words(tx: Tx, query: str, right: Callable[[Row, Sequence[str]], bool], shelf: int | None) -> list[str]:
    """Analyse every text again and compare: the complaint, if there is one.

    The query takes `shelf`, `after` and `limit`; it gives rows by number: title, text, author and what `right` needs.
    """
    wrong, after = 0, 0
    while rows := tx.all(query, {"shelf": shelf, "after": after, "limit": PAGE}):
        wrong += sum(not right(row, _words(row)) for row in rows)
        after = int(rows[-1]["number"])
    return [f"{wrong} entries whose words are not those of their text"] if wrong else []


def _words(row: Row) -> list[str]:
    return analyser.words(embedded_text(row["title"], row["text"])) + analyser.words(row["author"])
