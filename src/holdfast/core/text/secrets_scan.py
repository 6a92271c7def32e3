"""Owns the recognition of credentials in text, so that nothing stores one; answers with kinds, never values."""

import hashlib
import math
import re
from collections.abc import Iterable, Iterator

PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("private key", re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")),
    ("PuTTY private key", re.compile(r"PuTTY-User-Key-File-\d")),
    ("age secret key", re.compile(r"\bAGE-SECRET-KEY-1[0-9A-Z]{50,}")),
    ("AWS access key id", re.compile(r"(?<![A-Za-z0-9])(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA)[A-Z2-7]{16}(?![A-Za-z0-9])")),
    ("GitHub token", re.compile(r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})")),
    ("GitLab token", re.compile(r"(?<![A-Za-z0-9])gl(?:pat|dt|rt|ptt|oas|cbt|ft|soat|agent)-[A-Za-z0-9_\-]{20,}")),
    ("Slack token", re.compile(r"(?<![A-Za-z0-9])xox[abeoprs](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}")),
    ("Slack app token", re.compile(r"(?<![A-Za-z0-9])xapp-\d-[A-Za-z0-9-]{10,}")),
    (
        "Slack webhook",
        re.compile(r"hooks\.slack\.com/(?:services|workflows)/[A-Z0-9]{6,}/[A-Z0-9]{6,}/[A-Za-z0-9]{16,}"),
    ),
    ("Discord webhook", re.compile(r"discord(?:app)?\.com/api/webhooks/\d{16,}/[A-Za-z0-9_-]{50,}")),
    ("Anthropic key", re.compile(r"(?<![A-Za-z0-9])sk-ant-[A-Za-z0-9_\-]{16,}")),
    ("OpenAI key", re.compile(r"(?<![A-Za-z0-9])sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_\-]{16,}")),
    ("OpenRouter key", re.compile(r"(?<![A-Za-z0-9])sk-or-(?:v\d-)?[A-Za-z0-9]{16,}")),
    ("OpenAI key", re.compile(r"(?<![A-Za-z0-9])sk-[A-Za-z0-9]{20,}")),
    ("Holdfast project key", re.compile(r"(?<![A-Za-z0-9])xero_[A-Za-z0-9]+_[A-Za-z0-9_\-]{16,}")),
    ("Holdfast organization key", re.compile(r"(?<![A-Za-z0-9])ks_live_[0-9a-fA-F]{32,}")),
    ("Stripe key", re.compile(r"(?<![A-Za-z0-9])(?:[sr]k_(?:live|test)_|whsec_)[A-Za-z0-9]{16,}")),
    ("Google API key", re.compile(r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_\-]{35}")),
    ("Google OAuth secret", re.compile(r"(?<![A-Za-z0-9])GOCSPX-[A-Za-z0-9_\-]{20,}")),
    ("Google OAuth token", re.compile(r"(?<![A-Za-z0-9])ya29\.[A-Za-z0-9_\-]{20,}")),
    ("npm token", re.compile(r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{36}")),
    ("PyPI token", re.compile(r"(?<![A-Za-z0-9])pypi-[A-Za-z0-9_\-]{50,}")),
    ("Hugging Face token", re.compile(r"(?<![A-Za-z0-9])hf_[A-Za-z]{30,}")),
    ("SendGrid key", re.compile(r"(?<![A-Za-z0-9])SG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}")),
    ("Twilio key", re.compile(r"(?<![A-Za-z0-9])SK[0-9a-f]{32}(?![0-9A-Za-z])")),
    ("DigitalOcean token", re.compile(r"(?<![A-Za-z0-9])do[por]_v1_[0-9a-f]{64}")),
    ("Telegram bot token", re.compile(r"(?<!\d)\d{8,10}:AA[A-Za-z0-9_\-]{33}(?![A-Za-z0-9_\-])")),
    ("HashiCorp Vault token", re.compile(r"(?<![A-Za-z0-9])hv[sbr]\.[A-Za-z0-9_\-]{20,}")),
    ("Azure storage key", re.compile(r"AccountKey=[A-Za-z0-9+/]{40,}={0,2}")),
    ("JSON Web Token", re.compile(r"(?<![A-Za-z0-9_])eyJ[A-Za-z0-9_\-]{8,}\.eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*")),
)

URL_PASSWORD = re.compile(r"\b[a-z][a-z0-9+.\-]{1,20}://[^\s/:@\"'<>]*:([^\s/@\"'<>]{3,})@", re.IGNORECASE)
BEARER = re.compile(r"\b(?:bearer|authorization\s*:\s*basic)\s+([A-Za-z0-9_\-.=+/]{16,})", re.IGNORECASE)
_ASSIGNMENT = re.compile(
    r"(?P<name>(?:password|passwd|passphrase|pwd|secret(?:[_\- ]?(?:key|access[_\- ]?key|token))?"
    r"|api[_\- ]?(?:key|token|secret)|access[_\- ]?(?:key|token)|auth[_\- ]?token|refresh[_\- ]?token"
    r"|client[_\- ]?secret|private[_\- ]?key"
    r"|signing[_\- ]?key|encryption[_\- ]?key|credentials?|token))"
    r"[\"'`*]{0,3}\s*(?P<sign>:=|=>|==?|:)\s*[\"'`*]{0,3}"
    r"(?P<value>[^\s\"'`,;<>(){}\[\]*]{4,})",
    re.IGNORECASE,
)
_SPOKEN = re.compile(
    r"\b(?P<name>password|passwd|passphrase|api key|secret key|access key|access token|auth token)"
    r"(?:\s+(?:for|of|to|on|in)(?:\s+[\w.@-]+){1,5}?)?\s+(?:is|was)\s*:?\s+[\"'`]?(?P<value>[^\s\"'`,;]{6,})",
    re.IGNORECASE,
)
# The same in the languages that teams write in besides English.
_SPOKEN_ELSEWHERE = re.compile(
    r"(?:\b(?:passwort|kennwort|zugangscode|türcode|mot de passe|code d['’]accès|contraseña|contrasena|clave de acceso"
    r"|senha|wachtwoord|lösenord|hasło|пароль|(?-i:PIN))\b"
    r"|密码|密碼|口令|パスワード|暗証番号|비밀번호|كلمة (?:السر|المرور))"
    r"(?:(?: [^\W\d]+){0,6}? (?:ist|lautet|heißt|war|est|es|é|è|jest|är)\b"
    r"|[^\n:：=]{0,40}?(?:[:：=]|是|为|為|は|는|은| هي))"
    r"\s*[:：]?\s*[\"'`«„“]?(?P<value>[^\s\"'`,;«»„“”。]{4,})",
    re.IGNORECASE,
)
_LOCKS = (
    r"wi-?fi|wlan|wireless|hotspot|router|door|gate|alarm|garage|entry|entrance|access|security|safe|lock|locker|unlock"
    r"|lock ?screen|building|lobby|house|flat|apartment|lift|elevator|vault|padlock|keypad|key ?box|lock ?box|sim|puk"
    r"|voicemail|card|bank|atm|phone|tablet|laptop|device|recovery|backup|2fa|mfa|otp|verification|one-time|login"
    r"|sign-in|authentication|parental|screen time|bike|gym|shed|cabin|airbnb"
)
# What opens something is named in two ways: 'the door code is 4711', 'the code for the door is 4711'.
_CODE = re.compile(
    rf"\b(?:(?:{_LOCKS})(?:'s)? (?:pass ?code|pass ?phrase|password|pin(?: code| number)?|code|key|combination)"
    rf"|pass ?codes?|PIN|pin (?:code|number)|puk"
    rf"|(?:code|pin|combination|password|key) (?:for|of|to|on)(?: (?:the|our|my|your|his|her))?(?: [\w-]+)?? "
    rf"(?:{_LOCKS}))"
    r"(?: (?:for|of|to|on|at|in)(?: [\w-]+){1,4}?)?(?:\s*[:=]\s*|\s+(?:is|was|are)(?: now| still)?:?\s+|\s+(?=\d))"
    r"(?P<value>[\"'`“‘][^\"'`”’\n]{3,60}[\"'`”’]|[0-9](?:[ -]?[0-9#*]){3,}|[^\s\"'`,;()]{4,})(?P<after>[^\n]{0,24})",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"\s*(?:digits?|characters?|chars|letters?|numbers?|lines?|times|words?|bytes|bits?|ms|seconds?|minutes?|hours?|days?"
    r"|users?|people|or (?:more|less)|long)\b",
    re.IGNORECASE,
)
# Words that are said of a code rather than being one: 'is required', 'is printed on the router'.
_SAID_OF_IT = re.compile(
    r"(?:ed|en|ing|able|ible|ly|ary|ory|al|ful|less|ous|ent|ant|ive|where|body|thing|known|reset|kept|sent|lost|gone|same)$",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"example|not-a-real|placeholder|dummy|sample|fake|redacted|changeme|insert|replace|(?:^|[^a-z])your[^a-z]|x{6,}|0{8,}"
    r"|\*{3,}",
    re.IGNORECASE,
)
# Keys that vendors print in their documentation, as digests: nobody's scanner takes this file for a leak.
_DOCUMENTED = frozenset(
    {
        "0011cc25eb432071",
        "2cafc0970149a84f",
        "6c96130f130ab0d6",
        "7f75367e78812551",
        "900e6c2bf8ce6c14",
        "b8e148545b13c78b",
        "c794fa6d20c64efb",
        "ca7459e2b26776de",
        "cf4d418ed3de92d7",
        "df452eef23e8cf2c",
        "e4da07ad200089ce",
        "e9974c507d2a8021",
        "f2d6ca16515033e5",
    }
)
_PLACEHOLDER = re.compile(
    r"\$\{?\w|<|%\w+%|\{\{|\*{3}|x{4,}$|\.{3}|…|^your|^(?:my|the|a|an|some|example|changeme|change_me|placeholder|redacted|none|null"
    r"|true|false|required|optional|string|str|bytes|env|os|process|secrets?|vault|settings|config|self|must|should|stored|kept"
    r"|read|see|from|in|is|not|hashed|encrypted|rotated|missing|invalid|expired|empty|unset|set|field|value|param(?:eter)?)"
    r"(?:$|[^A-Za-z0-9])",
    re.IGNORECASE,
)


def first_secret_kind(texts: Iterable[str]) -> str | None:
    """The kind of the first credential in any of the texts, or None."""
    for text in texts:
        for kind in _kinds(text):
            return kind
    return None


def is_documented(key: str) -> bool:
    """Whether a key is one that its vendor prints as an example, or a stand-in for one; nobody's lock opens with it."""
    if _EXAMPLE.search(key) or len(set(key.rpartition("_")[2].rpartition("-")[2])) <= 2:
        return True
    return hashlib.sha256(key.encode()).hexdigest()[:16] in _DOCUMENTED


def _kinds(text: str) -> Iterator[str]:
    for kind, pattern in PATTERNS:
        # A private key's first line says nothing of the key below it.
        if any("PRIVATE KEY" in match[0] or not is_documented(match[0]) for match in pattern.finditer(text)):
            yield kind
    for match in URL_PASSWORD.finditer(text):
        if not _PLACEHOLDER.search(match.group(1)) and match.group(1).lower() not in (
            "password",
            "pass",
            "pwd",
            "secret",
        ):
            yield "password in a URL"
    for match in BEARER.finditer(text):
        if _random_looking(match.group(1)) and not is_documented(match.group(1)):
            yield "bearer token"
    for match in _ASSIGNMENT.finditer(text):
        if _assigned_secret(match.group("name"), match.group("sign"), match.group("value")):
            yield _kind_of_name(match.group("name"))
    for match in _SPOKEN.finditer(text):
        value = match.group("value").rstrip(".!?")
        if not _PLACEHOLDER.search(value) and _mixed(value) and not is_documented(value):
            yield _kind_of_name(match.group("name"))
    for match in _SPOKEN_ELSEWHERE.finditer(text):
        if _is_told(match.group("value").rstrip(".!?")):
            yield "password"
    for match in _CODE.finditer(text):
        if _opens_something(match.group("value"), match.group("after")):
            yield "passcode"


def _is_told(value: str) -> bool:
    """Whether what stands behind 'das Passwort ist' is one: figures, or letters with signs; '12-stellig' is none."""
    if _PLACEHOLDER.search(value) or is_documented(value) or "://" in value:
        return False
    if re.fullmatch(r"[\d-]+", value):
        return sum(map(str.isdigit, value)) >= 4
    return _mixed(value) and not re.fullmatch(r"\d+(?:[a-z]{1,3}|-\w+)", value)


def _opens_something(value: str, after: str) -> bool:
    """Whether what stands behind 'the door code is' is one: figures, mixed signs, a quotation, or a last word."""
    if value[0] in "\"'`“‘":
        return not _PLACEHOLDER.search(value[1:-1])
    value = value.rstrip(".!?:")
    if _PLACEHOLDER.search(value) or _EXAMPLE.search(value) or "/" in value or "://" in value:
        return False
    if sum(map(str.isdigit, value)) >= 4 and not re.search(r"[A-Za-z]", value):
        return not _COUNTED.match(after)
    if _mixed(value):
        return len(value) >= 4 and not re.fullmatch(r"\d+(?:[a-z]{1,3}|-\w+)", value)
    ends = re.match(r"\s*(?:$|[.,;!)])", after) is not None
    return ends and len(value) >= 6 and value.isalpha() and not _SAID_OF_IT.search(value)


def _assigned_secret(name: str, sign: str, value: str) -> bool:
    """`token: refreshed hourly` is prose and `secret = settings.key` is code; `password=hunter2` is neither."""
    value = value.rstrip(".!?:")
    if len(value) < 4 or _PLACEHOLDER.search(value) or "://" in value or is_documented(value):
        return False
    password = re.search(r"pass|pwd", name, re.IGNORECASE) is not None
    if password and "=" in sign:
        return not value.startswith(("/", "~", "."))
    if password:
        return _mixed(value)
    return len(value) >= (8 if "=" in sign else 12) and _mixed(value) and _random_looking(value)


def _mixed(value: str) -> bool:
    """Letters with digits or signs among them: not a word of prose."""
    return re.search(r"[A-Za-z]", value) is not None and re.search(r"[0-9!@#$%^&+=?~|]", value) is not None


def _random_looking(value: str) -> bool:
    """Whether the characters carry more information than an identifier's."""
    if len(set(value)) < 5:
        return False
    counts = [value.count(character) for character in set(value)]
    entropy = -sum(count / len(value) * math.log2(count / len(value)) for count in counts)
    return entropy >= min(3.0, 0.75 * math.log2(len(value)))


def _kind_of_name(name: str) -> str:
    lowered = name.lower()
    if "pass" in lowered or "pwd" in lowered:
        return "password"
    if "key" in lowered:
        return "API key"
    return "token" if "token" in lowered else "secret"
