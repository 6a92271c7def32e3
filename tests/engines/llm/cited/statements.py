"""Owns the table of statements that a model may write about five sources: which are true of them, and which are not.

The first half was written before the check was made, and the check was tuned on it. The second half was written
afterwards, and nothing was tuned on it: its misses are listed in `test_statements.py`.
"""

from typing import NamedTuple

from holdfast.engines.llm.citations import ReadSource

COMMIT = ReadSource(
    1,
    "Keep sessions in PostgreSQL instead of Redis",
    "ledger@8d90859",
    "Keep sessions in PostgreSQL instead of Redis\n\nRedis lost every session on restart because it ran without a "
    "disk, so\npeople were signed out each night. PostgreSQL is backed up already.\n\nM src/auth/sessions.py +18 -1",
    about="Grace Hopper 2023-11-14 8d90859 ledger commit",
)
CHANGES = ReadSource(
    2,
    "CHANGELOG.md",
    "ledger:CHANGELOG.md#L1-L22",
    "# Changes\n\n## 2.4.0 (March 3, 2024)\n\n### Fixed\n\n- Fix path traversal in StaticFiles: a request for `../` "
    "could read files\n  outside of the directory. #1681\n- The request body is limited to 16 MB by default; it may be "
    "raised\n  with `max_body`.\n\n## 2.3.1 (January 19, 2024)\n\n### Changed\n\n- TestClient uses httpx instead of "
    "requests, because requests does not\n  support ASGI.\n- Drop support for Python 3.7.\n- Retries are now 5, up "
    "from 3.\n",
    about="CHANGELOG.md ledger",
    lines=(1, 22),
)
LIMITS = ReadSource(
    3,
    "docs/limits.md",
    "ledger:docs/limits.md#L1-L14",
    "Each key may make 45 calls a minute. Calls over the limit are answered with 429 and a\n`Retry-After` header. "
    "Tokens are not stored in plain text; only their SHA-256 digest is kept.\n\nBackground jobs run under a lease of "
    "60 seconds, which a worker renews every 20 seconds. The cache\nis disabled by default. Uploads might be scanned "
    "for viruses in a future version.\n\nReads are faster than writes, since reads do not wait for the writer "
    "thread.\n",
    about="docs/limits.md ledger",
    lines=(1, 14),
)
CODE = ReadSource(
    4,
    "src/auth/sessions.py",
    "ledger:src/auth/sessions.py#L6-L20",
    'class SessionKeeper:\n    """Sessions in PostgreSQL, found by their token."""\n\n    def __init__(self, url: str) '
    "-> None:\n        self._connection = connect(url)\n\n    def open_session(self, person: str) -> str:\n        "
    '"""Begin a session and give its token."""\n        token = self._connection.new_token()\n        '
    'self._connection.insert("session", token=token, person=person)\n        return token\n\n    def '
    'close_session(self, token: str) -> None:\n        """End a session; an unknown token is no error."""\n        '
    'self._connection.delete("session", token=token)\n',
    about="src/auth/sessions.py ledger",
    lines=(6, 20),
)
ISSUE = ReadSource(
    5,
    "Invoices with no lines crash",
    "ledger#12",
    "Invoices with no lines crash\n\nState: closed\n\nThe rounding divided by the number of lines, which broke empty "
    "invoices.\n\nAda Lovelace: Fixed in v1.0.0. Only empty invoices were affected, and we plan to round in the "
    "database later.",
    about="Linus Pauling 2024-02-01 12 ledger issue #12",
)
SOURCES = {source.number: source for source in (COMMIT, CHANGES, LIMITS, CODE, ISSUE)}


class Statement(NamedTuple):
    """A sentence of an answer, what is done to the truth in it, and whether it has to stay."""

    kind: str
    text: str
    is_true: bool = False


FIRST_HALF = (
    # True, in the source's words or in others.
    Statement("true", "Redis lost every session on restart [1].", True),
    Statement("true", "Sessions are kept in PostgreSQL because Redis lost them on restart [1].", True),
    Statement("true", "Grace Hopper moved sessions from Redis to PostgreSQL on 14 November 2023 [1].", True),
    Statement("true", "People were signed out every night, as Redis ran without a disk [1].", True),
    Statement("true", "The path traversal in StaticFiles was fixed in version 2.4.0 [2].", True),
    Statement("true", "It could read files outside of the directory, and was fixed in March 2024 [2].", True),
    Statement("true", "TestClient moved from requests to httpx in 2.3.1, since requests lacks ASGI support [2].", True),
    Statement("true", "Python 3.7 is no longer supported since 2.3.1 [2].", True),
    Statement("true", "The number of retries was raised from 3 to 5 [2].", True),
    Statement("true", "A key can make up to 45 calls per minute; further calls get a 429 [3].", True),
    Statement("true", "Only the SHA-256 digest of a token is kept, never its plain text [3].", True),
    Statement("true", "Workers renew the lease of 60 seconds every 20 seconds [3].", True),
    Statement("true", "`open_session` begins a session and returns its token [4].", True),
    Statement("true", "Closing a session with an unknown token is not an error [4].", True),
    Statement("true", "Empty invoices crashed because the rounding divided by the number of lines [5].", True),
    # Negated.
    Statement("negated", "Redis lost no session on restart [1]."),
    Statement("negated", "Redis ran with a disk [1]."),
    Statement("negated", "Tokens are stored in plain text [3]."),
    Statement("negated", "TestClient does not use httpx [2]."),
    Statement("negated", "An unknown token is an error when a session is closed [4]."),
    # Other numbers, versions and dates.
    Statement("number", "Each key may make 60 calls a minute [3]."),
    Statement("number", "Background jobs run under a lease of 20 seconds, which a worker renews every 60 seconds [3]."),
    Statement("number", "The number of retries was lowered from 5 to 3 [2]."),
    Statement("number", "The request body is limited to 16 GB by default [2]."),
    Statement("version", "The path traversal in StaticFiles was fixed in 2.3.1 [2]."),
    Statement("version", "Support for Python 3.8 was dropped [2]."),
    Statement("date", "Sessions moved to PostgreSQL on 14 October 2023 [1]."),
    Statement("date", "TestClient uses httpx since March 2024 [2]."),
    # Other names.
    Statement("name", "Mongo lost every session on restart [1]."),
    Statement("name", "Ada Lovelace moved sessions to PostgreSQL [1]."),
    Statement("name", "Sessions are kept in Redis instead of PostgreSQL [1]."),
    Statement("name", "`close_session` gives the session's token [4]."),
    # More than the source says.
    Statement("overclaim", "Uploads are scanned for viruses [3]."),
    Statement("overclaim", "Every invoice was affected [5]."),
    Statement("overclaim", "Redis lost every session on restart because of a bug in the kernel [1]."),
    Statement("overclaim", "PostgreSQL is the fastest store for sessions [1]."),
    # Compared the other way round.
    Statement("comparison", "Writes are faster than reads [3]."),
    Statement("comparison", "Reads are slower than writes [3]."),
    Statement("comparison", "The cache is enabled by default [3]."),
)

SECOND_HALF = (
    # True, in the source's words or in others.
    Statement("true", "Sessions used to be lost whenever Redis restarted [1].", True),
    Statement("true", "PostgreSQL was chosen because it is already backed up [1].", True),
    Statement("true", "The commit of 2023-11-14 replaced Redis with PostgreSQL for sessions [1].", True),
    Statement("true", "Redis had no disk, so sessions did not survive a restart [1].", True),
    Statement("true", "Version 2.4.0 closes a path traversal hole in StaticFiles, see #1681 [2].", True),
    Statement("true", "Request bodies are limited to 16 MB unless `max_body` raises it [2].", True),
    Statement("true", "Version 2.3.1, released on 19 January 2024, dropped Python 3.7 [2].", True),
    Statement("true", "httpx replaced requests in TestClient because requests does not support ASGI [2].", True),
    Statement("true", "Calls over the limit get status 429 with a `Retry-After` header [3].", True),
    Statement("true", "The cache is off by default [3].", True),
    Statement("true", "Uploads might be scanned for viruses in the future [3].", True),
    Statement("true", "Reads do not wait for the writer thread, which makes them faster than writes [3].", True),
    Statement("true", "`SessionKeeper` finds sessions in PostgreSQL by their token [4].", True),
    Statement("true", "`close_session` deletes the session with that token [4].", True),
    Statement("true", "Only empty invoices were affected, and it was fixed in v1.0.0 [5].", True),
    Statement("true", "The crash came from rounding, which divided by the number of lines [5].", True),
    # Negated.
    Statement("negated", "Redis did not lose sessions on restart [1]."),
    Statement("negated", "PostgreSQL is not backed up [1]."),
    Statement("negated", "requests supports ASGI [2]."),
    Statement("negated", "Reads wait for the writer thread [3]."),
    Statement("negated", "Calls over the limit are never answered with 429 [3]."),
    Statement("negated", "The digest of a token isn't kept [3]."),
    # Other numbers, versions and dates.
    Statement("number", "Calls over the limit are answered with 503 [3]."),
    Statement("number", "Each key may make 45 calls an hour [3]."),
    Statement("number", "Background jobs run under a lease of two minutes [3]."),
    Statement("number", "The worker renews the lease every 45 seconds [3]."),
    Statement("number", "Retries are now 3 [2]."),
    Statement("version", "Python 3.7 was dropped in 2.4.0 [2]."),
    Statement("version", "The crash of empty invoices was fixed in v1.1.0 [5]."),
    Statement("version", "TestClient uses httpx 2.3.1 instead of requests [2]."),
    Statement("date", "The path traversal in StaticFiles was fixed on January 19, 2024 [2]."),
    Statement("date", "Redis lost every session on restart in 2021 [1]."),
    # Other names.
    Statement("name", "TestClient moved from httpx to requests [2]."),
    Statement("name", "Linus Torvalds reported the crash of empty invoices [5]."),
    Statement("name", "The SHA-512 digest of a token is kept [3]."),
    Statement("name", "`open_session` deletes the session with that token [4]."),
    Statement("name", "FileResponse had a path traversal that was fixed in 2.4.0 [2]."),
    Statement("name", "Ada Lovelace: rounding happens in Redis [5]."),
    # More than the source says.
    Statement("overclaim", "Rounding happens in the database [5]."),
    Statement("overclaim", "Tokens are always encrypted before they are stored [3]."),
    Statement("overclaim", "PostgreSQL never loses sessions [1]."),
    Statement("overclaim", "The path traversal let attackers delete files outside of the directory [2]."),
    Statement("overclaim", "Redis was dropped because it was too expensive to run [1]."),
    # Compared or turned the other way round.
    Statement("comparison", "Reads are as slow as writes [3]."),
    Statement("comparison", "More than 45 calls a minute are allowed for each key [3]."),
    Statement("comparison", "Empty invoices broke the rounding [5]."),
    Statement("comparison", "The request body limit was lowered with `max_body` [2]."),
)
