"""Owns what a word is: how text becomes the words that are indexed, on both stores alike."""

import re
import threading
import unicodedata
import zlib
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from Stemmer import Stemmer

LONGEST_WORD = 64
MOST_WORDS = 20_000

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002a6df"
_THAI_LIKE = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1780-\u17d3"
"""Thai, Lao, Burmese and Khmer, with their vowels."""
_UNSPACED = _CJK + _THAI_LIKE
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc"
    "\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u0a01-\u0a03\u0a3c-\u0a4d\u0a81-\u0a83"
    "\u0abc-\u0acd\u0b01-\u0b03\u0b3c-\u0b4d\u0b82\u0bbe-\u0bcd\u0c00-\u0c04\u0c3e-\u0c56\u0c81-\u0c83\u0cbc-\u0cd6"
    "\u0d00-\u0d03\u0d3b-\u0d4d\u0d81-\u0d83\u0dca-\u0ddf"
)
"""Accents that stand for themselves, and the vowels of Hindi and its likes, which are no letters to Python."""
_EMOJI = "\u2600-\u27bf\U0001f300-\U0001faff"
_LETTERS = rf"[^\W{_UNSPACED}]+(?:[{_MARKS}]+[^\W{_UNSPACED}]*)*"
# A run of word characters with the joints that identifiers, paths, versions and addresses are written with.
_RUN = re.compile(rf"[{_UNSPACED}]+|{_LETTERS}(?:['’._/\\\-:+#@]+{_LETTERS})*[+#]{{0,2}}|[{_EMOJI}]")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
_IS_EMOJI = re.compile(rf"[{_EMOJI}]")
_HAS_MARKS = re.compile(rf"[{_MARKS}]")
_PIECE = re.compile(rf"[^\W_]+(?:[{_MARKS}]+[^\W_]*)*")
_HUMP = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")
_NAME = re.compile(rf"[^\W\d{_UNSPACED}](?:[^\W{_UNSPACED}])+")
_JOINT = re.compile(r"[._/\\\-:+#@]")
_APOSTROPHE = re.compile(r"['’](?:s|t|d|m|re|ve|ll)?\b", re.IGNORECASE)
_WHOLE = re.compile(r"[^0-9a-z_./:+#@~\-\u0080-\U0010ffff]")

_STOP_WORDS = (
    "a about after all also am an and any are as at be because been before being both but by can could "
    "did do does doing don for from further had has have having he her here hers herself him himself his "
    "how i if in into is it its itself just let may me might more most must my myself no nor not of off "
    "on once only or other our ours out over own same shall she should so some such than that the their "
    "theirs them themselves then there these they this those through to too under until up us very was we "
    "were what when where which while who whom why will with would you your yours "
)
STOP_WORDS = frozenset(_STOP_WORDS.split())

_stemmer_of_thread = threading.local()


class Word(NamedTuple):
    """One indexed word and the stretch of text it stands for."""

    text: str
    start: int
    end: int


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The stem of a lower-case word; words with digits stay as they are."""
    return stemmed(word) if len(word) >= 3 and word.isalpha() else word


def stemmed(word: str) -> str:
    """What English grammar leaves of a lower-case word, whatever it is made of."""
    stemmer = getattr(_stemmer_of_thread, "stemmer", None)
    if stemmer is None:
        # It keeps its state in itself, so each thread has one. What it remembers is remembered here already.
        stemmer = _stemmer_of_thread.stemmer = Stemmer("english", 0)
    return str(stemmer.stemWord(word))


def words(text: str) -> list[str]:
    """The indexed words of a text, in order: stems of its parts, and identifiers whole as well."""
    runs = _RUN.findall(text)
    if len(runs) < MOST_WORDS:
        return list(chain.from_iterable(map(_texts_of_run, runs)))
    found: list[str] = []
    for run in runs:
        found += _texts_of_run(run)
        if len(found) >= MOST_WORDS:
            break
    return found


@lru_cache(maxsize=50_000)
def code(word: str) -> int:
    """A word's number, to count words by: four bytes, the same on every machine."""
    return zlib.crc32(word.encode(errors="replace"))


def codes(found: Sequence[str]) -> bytes:
    """The numbers of words, as they are stored."""
    return np.fromiter(map(code, found), np.uint32, len(found)).tobytes()


def coded(text: str) -> bytes:
    """The numbers of a text's words, without listing the words first, which takes longer."""
    runs = _RUN.findall(text)
    return b"".join(map(_codes_of_run, runs)) if len(runs) < MOST_WORDS else codes(words(text))


def written_words(text: str, most: int) -> list[str]:
    """The first distinct words of a text as they are written, in lower case without accents: for literal search.

    Nothing is stemmed and nothing left out; of an identifier its parts count, in humps as well.
    """
    found: dict[str, None] = {}
    for run in _RUN.finditer(text):
        for word in _written_in_run(run.group()):
            found[word] = None
            if len(found) >= most:
                return list(found)
    return list(found)


def query_words(text: str) -> list[str]:
    """The distinct words to look for; stop words only where there is nothing else."""
    found = list(dict.fromkeys(words(text)))
    if not found:
        # A query of stop words alone ("who are you") still looks for them, though they were never indexed.
        return list(dict.fromkeys(piece.group().lower() for piece in _PIECE.finditer(text)))
    return found


def other_spellings(text: str) -> list[str]:
    """The names in a query as other conventions write them: `parse_location` and `parseLocation` are one name."""
    found: dict[str, None] = {}
    for name in _NAME.findall(text):
        parts = [part for piece in name.split("_") for part in _HUMP.findall(piece)]
        if len(parts) > 1:
            joined = _fold("".join(parts))
            for spelling in (_fold("_".join(parts)), stem(joined) if joined.isalpha() else joined):
                if len(spelling) <= LONGEST_WORD:
                    found[spelling] = None
    return list(found)


def located(text: str, wanted: Collection[str]) -> list[Word]:
    """The wanted words of a text with their places in it."""
    found: list[Word] = []
    beginnings = frozenset(chain.from_iterable(map(_beginnings, wanted)))
    for run in _RUN.finditer(text):
        written = run.group()
        # Most words begin unlike any that is wanted, and need not be stemmed to be told apart.
        if written[:2] not in beginnings and written[:1] not in beginnings and written.isascii() and _is_plain(written):
            continue
        for word, start, end in _of_run(written):
            if word in wanted:
                offset = run.start()
                found.append(Word(word, offset + start, offset + end))
    return found


@lru_cache(maxsize=1000)
def _beginnings(stemmed: str) -> tuple[str, ...]:
    """How plain words of this stem may begin: with its first two letters, of which an i may have been a y."""
    begun = {""}
    for letter in stemmed[:2]:
        begun = {before + written for before in begun for written in ("iy" if letter in "iy" else letter)}
    return tuple(spelling for each in begun for spelling in (each, each.title(), each.upper()))


def _is_plain(run: str) -> bool:
    """Whether a run is one word, without humps or joints."""
    return run.isalpha() and (run.islower() or run.istitle() or run.isupper())


@lru_cache(maxsize=20_000)
def _texts_of_run(run: str) -> tuple[str, ...]:
    return tuple(word.text for word in _of_run(run))


@lru_cache(maxsize=20_000)
def _written_in_run(run: str) -> tuple[str, ...]:
    if _IS_UNSPACED.match(run):
        return tuple(word.text for word in _bigrams(run))
    if _IS_EMOJI.match(run):
        return (run,)
    found: dict[str, None] = {}
    for piece in _PIECE.findall(run):
        found[_fold(piece)[:LONGEST_WORD]] = None
        if _HAS_MARKS.search(piece):
            continue
        found |= dict.fromkeys(_fold(part)[:LONGEST_WORD] for part in _HUMP.findall(piece))
    return tuple(found)


@lru_cache(maxsize=50_000)
def _codes_of_run(run: str) -> bytes:
    return codes(_texts_of_run(run))


# People repeat their words, so most of a text is looked up rather than taken apart; numbers and hashes never come
# again, so that more room would only be more memory.
@lru_cache(maxsize=10_000)
def _of_run(run: str) -> tuple[Word, ...]:
    """The words of a run of characters, their places counted from its start."""
    if _IS_UNSPACED.match(run):
        return tuple(_bigrams(run))
    if _IS_EMOJI.match(run):
        return (Word(run, 0, len(run)),)
    bare = _APOSTROPHE.sub("", run)
    if _is_plain(bare):
        return tuple(_plain(bare, 0, len(run)))
    pieces = list(_PIECE.finditer(run))
    found = [word for piece in pieces for word in _humps(piece.group(), piece.start())]
    whole = _WHOLE.sub("", _fold(bare))
    if (len(pieces) > 1 or whole.endswith(("+", "#"))) and _JOINT.search(whole) and len(whole) <= LONGEST_WORD:
        found.append(Word(whole, 0, len(run)))
    return tuple(found)


def _plain(word: str, start: int, length: int) -> Iterator[Word]:
    folded = _fold(word)
    if folded not in STOP_WORDS and len(folded) <= LONGEST_WORD:
        yield Word(stem(folded), start, start + length)


def _humps(piece: str, start: int) -> Iterator[Word]:
    """`parseHTTPReply2` is parse, http, reply, 2 and the whole."""
    if piece.lower() in ("s", "t", "d", "m", "re", "ve", "ll") and start > 0:
        return
    if _HAS_MARKS.search(piece):
        yield from _plain(piece, start, len(piece))
        return
    parts = list(_HUMP.finditer(piece))
    for part in parts:
        yield from _plain(part.group(), start + part.start(), part.end() - part.start())
    if len(parts) > 1 and len(piece) <= LONGEST_WORD:
        folded = _fold(piece)
        # Written all in small letters it is a plain word, and those are stemmed.
        yield Word(stem(folded) if folded.isalpha() else folded, start, start + len(piece))


def _bigrams(run: str) -> Iterator[Word]:
    """Chinese, Japanese, Thai and the like are written without spaces: every two neighbours are a word."""
    if len(run) == 1:
        yield Word(run, 0, 1)
    for offset in range(len(run) - 1):
        yield Word(run[offset : offset + 2], offset, offset + 2)


@lru_cache(maxsize=20_000)
def _fold(word: str) -> str:
    """Lower case without accents."""
    lower = word.lower()
    if lower.isascii():
        return lower
    decomposed = unicodedata.normalize("NFKD", lower)
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter)) or lower
