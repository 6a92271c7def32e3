"""Owns what is said in conversations: who speaks in a text, and what its words are like."""

import re
from typing import NamedTuple

SPOKEN = 1
"""It is part of a conversation."""
NAMED = 2
"""It says who speaks; only then the bits below are judged."""
ASKS = 4
FIRST_PERSON = 8
TELLS_WHEN = 16

LONGEST_NAME = 40
_NAMED_SO = r"([^\W\d_][\w.'’\-]*(?: [^\W\d_][\w.'’\-]*){0,2})"
_CLOCK = r"\d{1,2}:\d{2}(?::\d{2})?(?: ?[AaPp]\.?[Mm]\.?)?"
_DAY = r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}"
_STAMP = rf"(?:\[[^\]\n]{{0,30}}\d[^\]\n]{{0,30}}\]|{_DAY}(?:,?[ T]{_CLOCK})?|{_CLOCK})"
_OPENING = re.compile(rf"\s*(?:{_STAMP}(?: ?[-–—])?[ \t]+)?(?:\*\*)?{_NAMED_SO}(?:\*\*:|:\*\*|:)[ \t]+(?=\S)")
"""`Maya: words`, as exports of chats write it too: behind a time, or in bold."""
_HEADED = re.compile(rf"\s*(?:\*\*)?{_NAMED_SO}(?:\*\*)?[ \t]+(?:[-–—][ \t]*)?{_STAMP}[ \t]*:?\n+[ \t]*(?=\S)")
"""The name with a time on a line of its own, as Slack and Discord copy it."""
_ROLES = "user assistant human system agent ai bot customer client interviewer speaker"
ROLES = frozenset(_ROLES.split())
# What people write before a colon without anybody speaking.
_LABELS = (
    "note notes nb todo fixme warning caution caveat important attention decision decided fact facts tip tips hint "
    "rule rules fix fixed bug bugs error errors issue issues problem question questions answer answers reason "
    "reasons result results example examples summary status update updates reminder context background goal goals "
    "task tasks plan plans step steps source sources reference references see cause solution workaround convention "
    "conventions preference preferences instruction instructions policy requirement requirements title subject date "
    "time when where what why how who version changelog release command usage config setting settings default name "
    "description type category tag tags project team api url host port path file files input output action actions "
    "next pro pros con cons risk risks assumption assumptions gotcha gotchas lesson lessons learned memory topic "
    "key value deadline owner author "
)
LABELS = frozenset(_LABELS.split())
# What people say to each other has one of these nearly always (98.7 % of the turns of five conversations), and notes
# such as "Postgres: version 16 is needed" seldom. German, French, Spanish, Italian, Portuguese and Dutch follow.
_SAID = re.compile(
    r"\b(?:i|my|me|mine|we|our|us|you|your|yours|yes|yeah|thanks|hey|hi|hello|wow|oh|ok|okay|"
    r"ich|mich|mir|meine?[mnrs]?|wir|uns|unsere?[mnrs]?|du|dich|dir|deine?[mnrs]?|danke|hallo|"
    r"je|moi|mon|mes|nous|notre|tu|vous|votre|oui|merci|salut|yo|mis|nosotros|tú|usted|sí|gracias|hola|"
    r"io|mio|mia|noi|grazie|ciao|eu|meu|minha|nós|você|obrigad[ao]|ik|mijn|wij|jij|jouw|bedankt)\b|[?!？！]",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(r"\b(?:i|my|me|mine|myself|we|our|ours|us)\b", re.IGNORECASE)
_TIME_WORD = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|last|next|ago|weeks?|weekends?|months?|years?|days?|mornings?|"
    r"monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|june|july|"
    r"august|september|october|november|december|recently|since|(?:19|20)\d\d)\b",
    re.IGNORECASE,
)
_ASKS_WHEN = re.compile(
    r"\b(?:when|how long|(?:what|which)\s+(?:date|day|week|month|year|time))\b",
    re.IGNORECASE,
)


class Speech(NamedTuple):
    """Who speaks, and what."""

    speaker: str
    said: str


def speech(text: str) -> Speech | None:
    """The text as somebody's words, where it opens with their name and a colon."""
    match = _opening(text)
    if match is None or len(match[1]) > LONGEST_NAME:
        return None
    names = match[1].split(" ")
    if any(name.lower() in LABELS for name in names):
        return None
    if len(names) == 1 and names[0].lower() in ROLES:
        return Speech(match[1], text[match.end() :])
    said = text[match.end() :]
    return Speech(match[1], said) if all(_is_name(name) for name in names) and _SAID.search(said) else None


def _opening(text: str) -> re.Match[str] | None:
    return _OPENING.match(text) or _HEADED.match(text)


def opens_with_name(text: str) -> bool:
    """Whether the text could be somebody's words: what is said between others' words is, whatever it sounds like."""
    match = _opening(text)
    return match is not None and len(match[1]) <= LONGEST_NAME and all(map(_is_name, match[1].split(" ")))


def _is_name(word: str) -> bool:
    """Whether a word is written like a name: TODO is not; scripts without capitals know no other way."""
    return not word[0].islower() and not (word.isascii() and word.isupper() and len(word) > 2)


def traits(text: str) -> int:
    """What an entry of a conversation is like, as bits."""
    spoken = speech(text)
    if spoken is None:
        return SPOKEN
    return (
        SPOKEN
        | NAMED
        | (ASKS if spoken.said.rstrip().endswith(("?", "？")) else 0)
        | (FIRST_PERSON if _FIRST_PERSON.search(spoken.said) else 0)
        | (TELLS_WHEN if _TIME_WORD.search(spoken.said) else 0)
    )


def asks_when(question: str) -> bool:
    """Whether somebody wants to know a time."""
    return _ASKS_WHEN.search(question) is not None


def meant_text(title: str, text: str) -> str:
    """What an entry's vector is made of: title and text without the speaker, whose name says nothing of the matter."""
    spoken = speech(text)
    said = text if spoken is None else spoken.said
    return said if not title or text.startswith(title.rstrip("….")) else f"{title}\n{said}"
