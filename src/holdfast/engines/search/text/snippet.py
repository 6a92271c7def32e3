"""Owns the passage a hit shows: the stretch of its text that has most of the words, with them marked."""

from collections import Counter
from collections.abc import Mapping

from holdfast.engines.search.text.analyser import Word, located

LENGTH = 240
MARK = "**"


def snippet(text: str, weights: Mapping[str, float], length: int = LENGTH) -> str:
    """About `length` characters of the text, its matching words between `**`; the beginning where none matches."""
    matches = located(text, weights)
    start, end = _window(text, matches, weights, length)
    pieces: list[str] = []
    place = start
    for word in _outermost([word for word in matches if word.start >= start and word.end <= end]):
        pieces += [text[place : word.start], MARK, text[word.start : word.end], MARK]
        place = word.end
    pieces.append(text[place:end])
    passage = " ".join("".join(pieces).split())
    return ("… " if start > 0 else "") + passage + (" …" if end < len(text) else "")


def _window(text: str, matches: list[Word], weights: Mapping[str, float], length: int) -> tuple[int, int]:
    if len(text) <= length:
        return 0, len(text)
    best, start = -1.0, 0
    following, value = 0, 0.0
    seen: Counter[str] = Counter()
    for first in matches:
        while following < len(matches) and matches[following].end <= first.start + length * 3 // 4:
            word = matches[following].text
            value += 0.0 if seen[word] else weights[word]
            seen[word] += 1
            following += 1
        # Sums in another order differ by a hair; the earlier passage wins then.
        if value > best + 1e-9:
            best, start = value, first.start
        if seen[first.text]:
            seen[first.text] -= 1
            value -= 0.0 if seen[first.text] else weights[first.text]
    start = _word_start(text, max(0, start - length // 8))
    end = min(len(text), start + length)
    if end < len(text):
        space = text.rfind(" ", start + length // 2, end)
        end = space if space > 0 else end
    return start, end


def _word_start(text: str, place: int) -> int:
    if place == 0:
        return 0
    space = text.find(" ", place, place + LENGTH // 8)
    return space + 1 if space >= 0 else place


def _outermost(words: list[Word]) -> list[Word]:
    """Without words inside or overlapping others, in order."""
    found: list[Word] = []
    for word in sorted(words, key=lambda one: (one.start, -one.end)):
        if not found or word.start >= found[-1].end:
            found.append(word)
    return found
