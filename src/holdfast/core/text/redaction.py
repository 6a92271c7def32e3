"""Owns the one rule by which credentials are left out of logs, traces, audit entries and echoed input."""

import re
from urllib.parse import unquote

from holdfast.core.text.secrets_scan import BEARER, PATTERNS, URL_PASSWORD

MASK = "[redacted]"
_LEAST_TOKEN = 24

# What stands behind these names is a credential, whatever it looks like: `?link=…`, `Authorization: …`, `"token": "…"`.
_NAMED = re.compile(
    r"(?P<name>\b(?:proxy-)?authorization|\b(?:set-)?cookie)(?P<sign>[\"']?\s*[:=,]\s*[\"']?)(?P<value>[^\"'\r\n]+)"
    r"|(?P<name2>(?:\b|_)(?:link|key|api[_-]?key|token|secret|password|passwd|passphrase|pwd|code|state|nonce|verifier"
    r"|csrf|x-csrf-token|session|signature|sig|credential|assertion|cookie))"
    r"(?P<sign2>=|[\"']\s*[:=]\s*[\"'])(?P<value2>[^\s&;,\"'<>\\]+)",
    re.IGNORECASE,
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*-----|\Z)", re.DOTALL
)
# A key of ours, even one that was cut short or has a wrong end.
_OURS = re.compile(r"(?<![A-Za-z0-9])(?:xero_[A-Za-z0-9]+_[A-Za-z0-9_\-]+|ks_live_[0-9A-Za-z]+)")
_RUN = re.compile(rf"[A-Za-z0-9_\-+]{{{_LEAST_TOKEN},}}")
_ID = re.compile(r"[a-z]{1,8}_[0-9a-f]{32}")
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_COMMIT_DIGITS = 40
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
# Of 60,000 tokens of ours the longest pieces are 3.8 on average; the shortest of a name in our sources are above 4.3.
_LEAST_WORD = 4.0
# Our ids and short words: what nearly every path is made of, found out by one pass.
_PLAIN_PATH = re.compile(r"(?:/(?:[a-z]{1,8}_[0-9a-f]{32}(?=/|\Z)|[A-Za-z0-9_\-.~]{0,19}(?=/|\Z)))*+")


def redacted(text: str) -> str:
    """The text without the credentials in it: known kinds, what is named as one, and whatever looks like a token."""
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _NAMED.sub(_without_value, text)
    text = URL_PASSWORD.sub(lambda found: found[0].replace(f":{found[1]}@", f":{MASK}@"), text)
    text = BEARER.sub(lambda found: found[0].replace(found[1], MASK), text)
    text = _OURS.sub(MASK, text)
    for _, pattern in PATTERNS:
        text = pattern.sub(MASK, text)
    return _RUN.sub(lambda found: MASK if _is_token(found[0]) else found[0], text)


def redacted_path(path: str) -> str:
    """A request's path without the credentials in it, also those that were escaped once more."""
    if _PLAIN_PATH.fullmatch(path):
        return path
    return "/".join(_redacted_segment(segment) for segment in path.split("/"))


def _redacted_segment(segment: str) -> str:
    if "%" in segment:
        plain = unquote(segment)
        return segment if redacted(plain) == plain else MASK
    return redacted(segment)


def _without_value(found: re.Match[str]) -> str:
    if found["name"] is not None:
        return f"{found['name']}{found['sign']}{MASK}"
    return f"{found['name2']}{found['sign2']}{MASK}"


def _is_token(run: str) -> bool:
    """Whether a run was drawn by chance: cut at its capitals and digits it falls into scraps, names fall into words."""
    if _ID.fullmatch(run):
        return False
    if _HEX.fullmatch(run):
        # Commits and ids are told apart by nothing but their length from keys in hexadecimal digits.
        return len(run) > _COMMIT_DIGITS
    if run.islower() or run.isupper():
        return False
    words = _WORD.findall(run)
    return sum(map(len, words)) < _LEAST_WORD * len(words)
