"""Every way into the log leaves credentials out: messages, facts, exceptions, warnings, threads that fail."""

import io
import json
import logging
import subprocess
import sys

import pytest
from starlette.types import Receive, Scope, Send

from holdfast.surfaces.http.telemetry import logs
from holdfast.surfaces.http.telemetry.logs import JsonFormatter
from tests.surfaces.test_gate import gate_around

SECRET = "xero_0197aaaabbbbccccddddeeeeffff0000_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6kL9nP2r"


class Holder:
    """Something whose text has a secret in it."""

    def __str__(self) -> str:
        return f"holder of {SECRET}"


@pytest.mark.parametrize(
    "facts",
    [
        {"msg": f"sent {SECRET}"},
        {"msg": "sent %s", "args": (SECRET,)},
        {"msg": "sent %s", "args": (Holder(),)},
        {"msg": "x", "path": f"/{SECRET}"},
        {"msg": "x", "headers": {"authorization": f"Bearer {SECRET}"}},
        {"msg": "x", "list": [("cookie", SECRET)], "set": {SECRET}},
        {"msg": "x", "deep": {"a": [{"b": (SECRET, 1, None, 2.5, True)}]}},
        {"msg": "x", "named": {SECRET: 1}},
        {"msg": "x", "thing": Holder(), "raw": SECRET.encode()},
        {"msg": "x", "stack_info": f"File x, key={SECRET}"},
    ],
    ids=lambda facts: "-".join(facts),
)
def test_a_record_is_written_without_credentials(facts: dict[str, object]) -> None:
    line = JsonFormatter().format(logging.makeLogRecord({"name": "x", "levelname": "INFO", **facts}))
    assert SECRET[-20:] not in line
    assert json.loads(line)["level"] == "info"


def test_an_exception_is_written_without_credentials() -> None:
    try:
        try:
            raise ValueError(f"bad key {SECRET}")
        except ValueError as problem:
            raise RuntimeError(f"GET /?link={SECRET}") from problem
    except RuntimeError:
        record = logging.makeLogRecord({"name": "x", "levelname": "ERROR", "msg": "x", "exc_info": sys.exc_info()})
    line = JsonFormatter().format(record)
    assert SECRET[-20:] not in line
    assert "RuntimeError" in json.loads(line)["exception"]


async def test_a_failing_request_is_logged_without_its_credentials(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise ZeroDivisionError(scope["path"])

    async def gone() -> dict[str, object]:
        return {"type": "http.disconnect"}

    sent: list[object] = []

    async def send(message: object) -> None:
        sent.append(message)

    written = io.StringIO()
    monkeypatch.setattr(logs, "_access_stream", written)
    scope: Scope = {"type": "http", "method": "GET", "path": f"/{SECRET}", "query_string": SECRET.encode()}
    scope["headers"] = [(b"host", b"localhost"), (b"x-request-id", SECRET[-43:].encode())]
    with caplog.at_level(logging.ERROR, "holdfast.access"):
        await gate_around(broken)(scope, gone, send)
    lines = [JsonFormatter().format(record) for record in caplog.records] + [written.getvalue()]
    assert len(lines) == 2
    assert all(SECRET[-20:] not in text for text in (*lines, str(sent)))


PROGRAM = """
import sys, threading, warnings
from holdfast.surfaces.http.telemetry.logs import configure_logs
configure_logs("debug")
secret = sys.argv[1]
warnings.warn(f"the key {secret} is old")
def fail():
    raise ValueError(f"thread {secret}")
thread = threading.Thread(target=fail)
thread.start()
thread.join()
class Bad:
    def __del__(self):
        raise ValueError(f"unraisable {secret}")
Bad()
raise ValueError(f"last {secret}")
"""


def test_what_python_itself_would_print_goes_through_the_log() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, SECRET], capture_output=True, text=True, timeout=120)
    assert SECRET[-20:] not in done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    told = " ".join(line["message"] + line.get("exception", "") for line in lines)
    assert all(word in told for word in ("is old", "thread", "unraisable", "last"))
