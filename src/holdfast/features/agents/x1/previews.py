"""Owns preview deployments: an operator's own command or webhook is told what to deploy, and answers where it is."""

import asyncio
import os
import re
import shlex
import signal
from contextlib import suppress
from typing import Any

import orjson

from holdfast.core.errors import FieldError, HoldfastError, Invalid, Unavailable, UpstreamFailed
from holdfast.core.text import jsontext
from holdfast.engines.fetch.network.guard import FetchLimits, Guard, Request
from holdfast.engines.fetch.network.url import BadUrl, parse_url

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}/[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_BRANCH = re.compile(r"(?!-)(?!.*(?:\.\.|//|@\{|\.lock(?:/|$)))[A-Za-z0-9._/@+#-]{1,200}")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_OUTPUT_BYTES = 65_536


class PreviewFailed(UpstreamFailed):
    """What deploys previews said no, or did not say where."""

    code = "preview_failed"


class Previews:
    """Deploys previews by what the operator configured; a command wins over a webhook."""

    def __init__(self, guard: Guard, *, command: str | None, webhook: str | None, seconds: float) -> None:
        self._guard = guard
        self._command = tuple(shlex.split(command)) if command else ()
        self._webhook = webhook
        self._seconds = seconds

    async def deploy(self, repository: str, branch: str, commit: str) -> str:
        """Deploy a commit; where the preview is."""
        wrong = [
            FieldError(field, problem)
            for field, pattern, value, problem in (
                ("repo_full_name", _REPOSITORY, repository, "write owner/name"),
                ("branch", _BRANCH, branch, "write a branch as git has it"),
                ("commit_sha", _COMMIT, commit, "write 7 to 64 hexadecimal digits"),
            )
            if pattern.fullmatch(value) is None
        ]
        if wrong:
            raise Invalid("The preview cannot be deployed like this.", fields=wrong)
        if self._command:
            return _address(await self._run(repository, branch, commit))
        if self._webhook is not None:
            return _address(await self._post(self._webhook, repository, branch, commit))
        raise Unavailable(
            "No previews are configured here. The operator sets HOLDFAST_PREVIEW_COMMAND or HOLDFAST_PREVIEW_WEBHOOK.",
            code="preview_not_configured",
        )

    async def _run(self, *arguments: str) -> bytes:
        """What the command printed; arguments are never read by a shell, and nothing of our environment is told."""
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=env,
                start_new_session=True,
            )
        except OSError as problem:
            raise PreviewFailed(f"The command that deploys previews did not start: {problem.strerror}.") from None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(self._seconds):
                printed = await _last(process.stdout)
                status = await process.wait()
        except TimeoutError:
            raise PreviewFailed(f"The preview was not ready within {self._seconds:g} seconds.") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if status != 0:
            raise PreviewFailed(f"The command that deploys previews ended with status {status}.")
        return printed

    async def _post(self, webhook: str, repository: str, branch: str, commit: str) -> bytes:
        body = jsontext.dumps({"repo_full_name": repository, "branch": branch, "commit_sha": commit})
        request = Request(parse_url(webhook), "POST", {"content-type": "application/json"}, body)
        try:
            reply = await self._guard.send(
                request, limits=FetchLimits(bytes=_OUTPUT_BYTES, seconds=self._seconds, redirects=0)
            )
        except HoldfastError as problem:
            raise PreviewFailed("The webhook that deploys previews could not be reached.", code=problem.code) from None
        if not 200 <= reply.status < 300:
            raise PreviewFailed(f"The webhook that deploys previews answered {reply.status}.")
        return reply.body


async def _last(stdout: asyncio.StreamReader) -> bytes:
    """The end of what a command prints."""
    tail = b""
    while piece := await stdout.read(_OUTPUT_BYTES):
        tail = (tail + piece)[-_OUTPUT_BYTES:]
    return tail


def _address(said: bytes) -> str:
    """The address in an answer: `{"url": …}`, or the last line of a text."""
    text = said.decode("utf-8", "replace").strip()
    found: Any = None
    with suppress(orjson.JSONDecodeError):
        found = orjson.loads(text)
    url = found.get("url") if isinstance(found, dict) else text.rpartition("\n")[2].strip()
    try:
        if not isinstance(url, str) or len(url) > 2_000:
            raise ValueError
        parse_url(url)
    except (BadUrl, ValueError):
        raise PreviewFailed("What deploys previews did not say where the preview is.") from None
    return url
