"""Owns the plain rules of the embedded model: which tool a message asks for, read from its words alone."""

import re
from collections.abc import Collection
from typing import Any

from holdfast.core.errors import Invalid
from holdfast.engines.calculator import evaluate
from holdfast.engines.llm.model import Json

MOST_URLS = 5

_URL = re.compile(r"https?://[^\s<>\"'`]+")
_REPOSITORY = re.compile(r"https?://(github|gitlab)\.com/([\w.-]+/[\w.-]+?)(?:\.git|/)?(?=[\s),.;!?]|$)")
_REMEMBER = re.compile(
    r"^\s*(?:please\s+)?(?:remember(?:\s+that)?|note\s+that|don'?t\s+forget)[:,]?\s+(.+)", re.I | re.S
)
_DATE = re.compile(r"\b\d{4}-\d{1,2}-\d{1,2}\b|\b\d{1,2}/\d{1,2}/\d{2,4}\b|\b\d+(?:\.\d+){2,}\b")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*(?:%|percent)\s+of\s+(\d[\d,]*(?:\.\d+)?)", re.I)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_FUNCTION = r"(?:sqrt|log|ln|sin|cos|tan|abs|floor|ceil|round|min|max)\s*\("
_SUM = re.compile(rf"(?:{_FUNCTION}|[\d.(-])(?:{_FUNCTION}|\bpi\b|\be\b|[\d\s.,()+\-*/^])*")
_IS_SUM = re.compile(rf"\d\s*\)*\s*[-+*/^]\s*[-(\s]*(?:\d|{_FUNCTION}|pi|e\b)|{_FUNCTION}")
_WORDS_FOR_SIGNS = (
    (re.compile(r"\bplus\b", re.I), "+"),
    (re.compile(r"\bminus\b|−", re.I), "-"),
    (re.compile(r"\btimes\b|\bmultiplied by\b|×|(?<=\d)\s*x\s*(?=\d)", re.I), "*"),
    (re.compile(r"\bdivided by\b|\bover\b|÷", re.I), "/"),
    (re.compile(r"\bto the power of\b|\*\*", re.I), "^"),
)

_SMALL_TALK = re.compile(
    r"(?:hello|hallo|hi(?:ya)?|hey|howdy|yo|greetings|moin|servus|bonjour|salut|hola|ciao|ol[aá]|namaste"
    r"|good (?:morning|afternoon|evening|night|day)|guten (?:morgen|tag|abend)"
    r"|(?:many )?thanks?(?: (?:you|a lot|so much|very much))*|thx|cheers|danke(?: schön)?|merci|gracias"
    r"|(?:good)?bye|see you(?: later| soon)?|tschüss|nice to meet you|you(?:'re| are) welcome"
    r"|how are (?:you|things|we)(?: (?:doing|today))*|how do you do|how(?:'s| is) it going|what'?s up|sup"
    r"|who are you|what are you|what(?:'s| is) your name|what (?:can|do) you do|(?:can|could) you help(?: me)?"
    r"|are you (?:there|ready|real|human|an? (?:ai|bot|human|robot))|is (?:anybody|anyone|somebody) there|help(?: me)?"
    r"|ok(?:ay)?|cool|great|nice|perfect|awesome|fine|lol|haha+|yes|no|yep|nope|sure|test(?:ing)?|ping"
    r"|there|everyone|everybody|all|folks|team|friends?|again|please|and|so|holdfast|assistant|bot)(?![\w'])"
)
_FILLERS = "there everyone everybody all folks team friend friends again please and so"
_FILLER = frozenset(_FILLERS.split())


def is_small_talk(text: str) -> bool:
    """Whether a message greets, thanks or tries whether anybody is there, and asks for nothing besides."""
    rest = " ".join(re.sub(r"[^\w' ]+", " ", text.lower().replace("’", "'")).split())
    said: list[str] = []
    while rest:
        begin = _SMALL_TALK.match(rest)
        if begin is None:
            return False
        said.append(begin.group())
        rest = rest[begin.end() :].strip()
    return not _FILLER.issuperset(said)


def wanted_calls(text: str, tools: Collection[Json]) -> list[tuple[str, Json]]:
    """The calls that a message asks for, of the tools on offer; none where only knowledge can answer."""
    offered = {tool["function"]["name"]: tool["function"] for tool in tools if _is_function(tool)}
    fitting: list[tuple[str, Json]] = []
    for name, arguments in _asked(text, offered):
        properties = (offered[name].get("parameters") or {}).get("properties")
        # A client may offer a tool of the same name and another meaning.
        if not isinstance(properties, dict) or arguments.keys() <= properties.keys():
            fitting.append((name, arguments))
    return fitting


def _asked(text: str, offered: Collection[str]) -> list[tuple[str, Json]]:
    remembered = _REMEMBER.match(text)
    if remembered and "save_memory" in offered and not text.rstrip().endswith("?"):
        return [("save_memory", {"content": remembered[1].strip()})]
    found = _reading(text, offered)
    expression = find_sum(_URL.sub(" ", text))
    if expression and "calculator" in offered:
        found.append(("calculator", {"expression": expression}))
    if found:
        return found
    query = " ".join(text.split())[:400]
    return [(name, {"query": query}) for name in ("file_search", "recall_memory", "web_search") if name in offered]


def _reading(text: str, offered: Collection[str]) -> list[tuple[str, Json]]:
    found: list[tuple[str, Json]] = []
    for host, repository in _REPOSITORY.findall(text):
        tool = "code_search" if host == "github" else "gitlab_code_search"
        if tool in offered:
            found.append((tool, {"repository": repository}))
    if found or "fetch_url" not in offered:
        return found
    urls = list(dict.fromkeys(url.rstrip(".,;:!?)]}") for url in _URL.findall(text)))[:MOST_URLS]
    if len(urls) == 1:
        found.append(("fetch_url", {"url": urls[0]}))
    elif urls:
        found.append(("fetch_url", {"url": urls[0], "urls": urls[1:]}))
    return found


def find_sum(text: str) -> str | None:
    """The first expression in a text that the calculator can compute; dates and versions are none."""
    text = _THOUSANDS.sub("", _DATE.sub(" ; ", text))
    percent = _PERCENT.search(text)
    if percent:
        return f"{percent[1]} / 100 * {percent[2]}"
    for word, sign in _WORDS_FOR_SIGNS:
        text = word.sub(f" {sign} ", text)
    for candidate in _SUM.findall(text[:4_000]):
        expression = " ".join(candidate.strip(" \n\t.,-+*/^").split())
        if _IS_SUM.search(expression) and _computes(expression):
            return expression
    return None


def _computes(expression: str) -> bool:
    try:
        evaluate(expression)
    except Invalid:
        return False
    return True


def _is_function(tool: Any) -> bool:
    function = tool.get("function") if isinstance(tool, dict) else None
    return isinstance(function, dict) and isinstance(function.get("name"), str)
