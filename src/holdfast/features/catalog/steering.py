"""Owns looking through a tool's text for what steers models: letters that nobody sees, orders, however disguised."""

import re
import unicodedata
from collections.abc import Iterator

MAX_CHARACTERS = 20_000
"""Of one text, that are looked through; no tool needs more to say what it does."""

FILES = "names files with credentials"
# Letters that people do not see: tags, zero-width, directions, fillers, private use; escapes hide text in terminals.
_HIDDEN_CATEGORIES = frozenset({"Cf", "Co", "Cs", "Cn", "Cc"})
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5")
# A soft hyphen breaks words; a joiner makes one picture of several.
_PLAIN_FORMAT = frozenset("\u00ad\u200d\t\n\r")
_LONE_RETURN = re.compile(r"\r(?!\n)")
# A variation selector chooses a picture of the sign before it; rows of them, or after plain letters, carry bytes.
_SELECTOR = "[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
_IDEOGRAPH = "[\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
_SMUGGLED = re.compile(
    f"^{_SELECTOR}|{_SELECTOR}{{2}}|(?<=[\\x00-\\x7f])(?<![0-9#*]){_SELECTOR}|(?<!{_IDEOGRAPH})[\U000e0100-\U000e01ef]"
)
_SELECTORS = re.compile(_SELECTOR)
_LOOK_LATIN = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0455\u0458\u04bb\u0501\u051b\u051d\u04cf\u0410\u0412\u0415"
    "\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0406\u03bf\u03bd\u03b9\u03b1\u03c1\u0391\u0395\u0399\u039f",
    "aeopcyxisjhdqwlABEKMHOPCTYXIoviapAEIO",
)
_STEERING = (
    (
        re.compile(
            r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:previous|prior|above|earlier|other|all|system)\b"
            r"|\b(?:ignorier|missacht|vergiss)\w*\b.{0,40}\b(?:bisherig|vorherig|vorig|obig|früher|alle)\w*"
            r"|\b(?:ignora\w*|ignorez|ignoren|ignorem|olvid\w+|oubli\w+|esque[cç]\w+|dimentica\w*)\b.{0,40}"
            r"\b(?:instruc|instruç|istruzion|consigne|anterior|precedent|précédent)\w*"
            r"|\b(?:игнорируй|проигнорируй|забудь)\w*\b.{0,40}\b(?:инструкц|указани|команд)"
            r"|(?:忽略|无视|無視|忘记|忘記).{0,20}(?:指令|指示|提示|说明|說明)"
            r"|(?:指示|命令|プロンプト|지시|명령).{0,20}(?:無視|忘れ|무시)",
            re.I,
        ),
        "tells the model to ignore other instructions",
    ),
    (
        re.compile(
            r"\b(?:before|after|instead of|when(?:ever)?)\s+(?:using|calling|you (?:use|call)|invoking)\s+"
            r"(?:any|other|another|every|the)?\s*(?:other\s+)?tools?\b|\b(?:other|all|every) tools? (?:must|should)\b",
            re.I,
        ),
        "gives instructions about other tools",
    ),
    (
        re.compile(
            r"\b(?:do not|don't|never)\s+(?:tell|mention|inform|show|reveal)\b.{0,40}\b(?:user|person|human)", re.I
        ),
        "asks to hide something from the person",
    ),
    (
        re.compile(
            r"</?\s*(?:important|system|instructions?|secret|admin)\s*>|<\|\w{2,30}\|>|\[/?INST\]|<</?SYS>>"
            r"|<(?:start|end)_of_turn>",
            re.I,
        ),
        "has a tag made for models",
    ),
    (
        re.compile(
            r"(?<!\w)\.(?:ssh|aws|cursor|env|netrc|npmrc)\b|\bid_rsa\b|\bmcp\.json\b|/etc/passwd",
            re.I,
        ),
        FILES,
    ),
)


def found_in(text: str) -> Iterator[str]:
    """What is in a text that steers a model, in words."""
    hidden = sorted(f"U+{ord(letter):04X}" for letter in set(text) if _is_hidden(letter))
    hidden += [f"U+{ord(found[0][-1]):04X}" for found in [_SMUGGLED.search(text)] if found]
    hidden += ["U+000D"] if _LONE_RETURN.search(text) else []
    if hidden:
        yield f"has letters that people do not see ({', '.join(hidden[:5])})"
    if len(text) > MAX_CHARACTERS:
        yield f"is longer than the {MAX_CHARACTERS:,} characters that are looked through"
    readings = _readings(text[:MAX_CHARACTERS])
    for pattern, what in _STEERING:
        if any(pattern.search(reading) for reading in readings):
            yield what


def _readings(text: str) -> tuple[str, ...]:
    """The text, and as a model reads past what disguises it."""
    if text.isascii():
        return (text,)
    bare = "".join(letter for letter in _SELECTORS.sub("", text) if unicodedata.category(letter) != "Cf")
    plain = unicodedata.normalize("NFKC", bare)
    return (plain, plain.translate(_LOOK_LATIN))


def _is_hidden(letter: str) -> bool:
    if letter in _FILLERS:
        return True
    return unicodedata.category(letter) in _HIDDEN_CATEGORIES and letter not in _PLAIN_FORMAT
