"""Owns how a memory's text is read: cleaned, fingerprinted, given a title and a category, refused where it is junk."""

import hashlib
import re
import unicodedata

from holdfast.core.errors import FieldError, Invalid
from holdfast.core.text.secrets_scan import first_secret_kind
from holdfast.features.memory.model import (
    MAX_CHARACTERS,
    MAX_SOURCE,
    MAX_TAG,
    MAX_TAGS,
    MAX_TITLE,
    MAX_WORDS,
)
from holdfast.features.memory.writing.vocabulary import CHATTER, FILLERS

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_CATEGORY = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_PREFERENCE = re.compile(
    r"\b(?:prefer(?:s|red|ence|ences)?|favou?rites?|favou?rs?|likes?|loves?|enjoys?|dislikes?|hates?"
    r"|rather (?:have|use|see|not)|fond of|can't stand|would rather"
    r"|bevorzug\w*|lieblings\w*|mag (?:lieber|keine?n?|am liebsten)|préf[eéè]r\w*|prefier\w*|prefiro|favorit[oa]s?"
    r"|preferisc\w*)\b",
    re.IGNORECASE,
)
_INSTRUCTION = re.compile(
    r"^(?:please\s+)?(?:(?:always|never|do not|don['’]t|make sure|ensure|remember to|avoid|use|keep|answer|reply"
    r"|respond|prefer)\b"
    r"|(?:run|write|format|follow|call|ask|check|add|include|exclude|stop|start|treat|name|put|place|store|send|set"
    r"|test|commit)"
    r"\s+(?:the|a|an|all|any|every|each|your|our|in|to|with|before|after|only|no|me|it)\b"
    r"|(?:when(?:ever)?|before|after|if)\b[^,.]{2,80},)"
    r"|^(?:bitte|immer|nie|niemals|verwende|nutze|benutze|antworte|utilise[rz]?|toujours|jamais|répond[sez]*|usa|utiliza|siempre"
    r"|nunca|responde|usa|sempre)\b|てください|^请|必须|不要"
    r"|\b(?:must(?:n['’]t)?|should(?:n['’]t)?|have to|has to|needs? to|is required to|are required to|may not"
    r"|muss|müssen|soll(?:te)?n?|d(?:arf|ürfen) nicht|doit|doivent|deben?"
    r"|always (?:use|run|write|ask|check|add|include)|never (?:use|run|commit|push|deploy|merge))\b",
    re.IGNORECASE,
)
_BOILERPLATE = re.compile(
    r"lorem ipsum dolor|\bas an ai (?:language )?model\b"
    r"|^i(?:['’]ve| have) (?:saved|remembered|noted) (?:this|that|it)\b"
    r"|^(?:sure|certainly|of course)[,!]? (?:here|i can|i['’]d be)\b|^how can i (?:help|assist) you\b"
    r"|^(?:we use|this (?:web)?site uses) cookies\b|^all rights reserved\.?$|^(?:404 )?page not found\.?$"
    r"|^please enable javascript|^subscribe to our newsletter|^no results(?: found)?[.!]?$",
    re.IGNORECASE,
)
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm", "1234567890")


def clean(text: str) -> str:
    """The text without what no store keeps alike: control characters, lone surrogates, foreign line ends."""
    unified = text.replace("\r\n", "\n").replace("\r", "\n")
    return unicodedata.normalize("NFC", _CONTROL.sub("", unified)).strip()


def digest_of(content: str, chat_id: str = "") -> str:
    """The fingerprint of what a text says: case, spacing and closing punctuation aside. Each chat has its own."""
    folded = unicodedata.normalize("NFKC", content).casefold()
    said = " ".join(folded.split()).rstrip(" .!")
    return hashlib.sha256((f"{chat_id}\n{said}" if chat_id else said).encode()).hexdigest()


def title_of(content: str) -> str:
    """A heading, the first sentence, or as much of it as fits a line."""
    line = next((line for line in content.splitlines() if re.search(r"\w", line)), content)
    line = " ".join(re.sub(r"^[\s#>*\-+\d.)\]\[]+(?=\S)", "", line).split()) or " ".join(line.split())
    sentence = re.match(r".{12,}?[.!?](?=\s|$)", line)
    text = (sentence.group(0) if sentence else line).rstrip(".: ")
    if len(text) <= 80:
        return text
    return text[:80].rsplit(" ", 1)[0].rstrip(",;:.") + "…"


def category_of(content: str) -> str:
    """`preference`, `instruction` or `fact`, from how the text is worded."""
    if _PREFERENCE.search(content):
        return "preference"
    if _INSTRUCTION.search(content):
        return "instruction"
    return "fact"


def checked_category(category: str) -> str:
    """The category as one lower-case word; Invalid says how to write it."""
    word = re.sub(r"\s+", "-", category.strip().lower())
    if not _CATEGORY.fullmatch(word):
        problem = (
            "write one word of up to 40 letters, digits, - or _; usual are preference, fact, instruction and decision"
        )
        raise Invalid("The category cannot be used.", fields=[FieldError("category", problem)])
    return word


def checked_title(title: str) -> str:
    """A given title on one line."""
    line = " ".join(clean(title).split())
    if len(line) > MAX_TITLE:
        problem = f"has {len(line)} characters; the limit is {MAX_TITLE}"
        raise Invalid(f"The title is too long: {problem}.", fields=[FieldError("title", problem)])
    return line


def checked_tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    """Each tag once, in the order given."""
    kept = tuple(dict.fromkeys(tag for tag in (" ".join(clean(tag).split()) for tag in tags) if tag))
    if len(kept) > MAX_TAGS or any(len(tag) > MAX_TAG for tag in kept):
        problem = f"write at most {MAX_TAGS} tags of up to {MAX_TAG} characters"
        raise Invalid("The tags cannot be used.", fields=[FieldError("tags", problem)])
    return kept


def checked_source(source: str) -> str:
    """Where the knowledge comes from, on one line."""
    line = " ".join(clean(source).split())
    if len(line) > MAX_SOURCE:
        problem = f"has {len(line)} characters; the limit is {MAX_SOURCE}"
        raise Invalid(f"The source is too long: {problem}.", fields=[FieldError("source", problem)])
    return line


def check_length(content: str) -> None:
    """Invalid, naming the limit, for a text that is a document rather than a memory."""
    words = len(content.split())
    if words <= MAX_WORDS and len(content) <= MAX_CHARACTERS:
        return
    problem = (
        f"has {words:,} words and {len(content):,} characters; a memory holds at most {MAX_WORDS:,} words and "
        f"{MAX_CHARACTERS:,} characters: save the gist, and upload the whole as a document"
    )
    raise Invalid(f"The memory is too long: it {problem}.", fields=[FieldError("content", problem)])


def secret_refusal(*texts: str) -> str | None:
    """Why the texts are not stored, naming the kind of credential in them; None when there is none."""
    kind = first_secret_kind(texts)
    if kind is None:
        return None
    return (
        f"It holds a credential ({kind}), which is never stored here; "
        "keep it in the workspace's secrets and save where to find it."
    )


def junk_refusal(content: str) -> str | None:
    """Why a text is not worth remembering; None when it may be."""
    letters = sum(map(str.isalnum, content))
    if letters == 0:
        return "It is empty: there is nothing to remember."
    if _BOILERPLATE.search(content) or _chatter(content):
        return "It is boilerplate: it says nothing about the project or its people."
    if _gibberish(content, letters):
        return "It is gibberish: it does not read as words."
    return None


def _chatter(content: str) -> bool:
    words = [_short(word.strip(".,!?:;()~*\"'")) for word in content.lower().replace("’", "'").split()]
    said = [word for word in words if word]
    if len(said) > 12 or CHATTER.isdisjoint(said):
        return False
    return CHATTER.union(FILLERS).issuperset(said)


def _short(word: str) -> str:
    """A drawn-out word as it is written: 'heyyy' is 'hey', 'hahahaha' is 'haha'."""
    drawn = re.sub(r"([a-z])\1{2,}", r"\1", word)
    laughed = re.fullmatch(r"(?:a?(?:ha){2,}h?|(?:he){2,}h?)", drawn)
    return "haha" if laughed else drawn


def _gibberish(content: str, letters: int) -> bool:
    visible = len(content) - sum(map(str.isspace, content))
    if letters < 3 or (visible >= 12 and letters / visible < 0.3):
        return True
    words = re.findall(r"[^\W\d_]+", content)
    runs = re.findall(r"\w+", content)
    if len(runs) <= 6 and all(map(_stuttered, runs)):
        return True
    if re.search(r"(\w)\1{9,}", content) and len(words) <= 3:
        return True
    if len(words) >= 8 and len({word.casefold() for word in words}) <= 2:
        return True
    # Names and code are odd one by one; a short text most of whose words are odd is noise.
    return len(words) <= 12 and sum(_odd(word) for word in words if word.isascii() and len(word) >= 4) > len(words) / 2


def _stuttered(run: str) -> bool:
    """One sign again and again, or two of them: 'aaaaaa', 'jkjkjkjk'; not 'Anna' or 'mama'."""
    return (len(run) >= 4 and len(set(run.casefold())) == 1) or (len(run) >= 6 and len(set(run.casefold())) == 2)


def _odd(word: str) -> bool:
    if re.search(r"[a-z][A-Z]", word) or word.isupper():
        return False
    lowered = word.lower()
    if len(lowered) >= 6 and not any(letter in "aeiouy" for letter in lowered):
        return True
    return (
        re.search(r"[bcdfghjklmnpqrstvwxz]{7,}", lowered) is not None or _run_of_keys(lowered) * 4 >= len(lowered) * 3
    )


def _run_of_keys(word: str) -> int:
    """How many letters of a word lie in runs of at least four neighbours on the keyboard, one after another."""
    found, run, way = 0, 1, 0
    for one, other in zip(word, word[1:] + " ", strict=True):
        step = _step(one, other)
        if step and step in (way, way or step):
            run, way = run + 1, step
            continue
        found += run if run >= 4 else 0
        run, way = (2, step) if step else (1, 0)
    return found


def _step(one: str, other: str) -> int:
    """1 to the right-hand neighbour on the keyboard, -1 to the left-hand one, 0 elsewhere."""
    for row in _ROWS:
        place = row.find(one)
        if place >= 0:
            return next((step for step in (1, -1) if 0 <= place + step < len(row) and row[place + step] == other), 0)
    return 0
