"""Owns structured logs: one JSON object a line, on stderr, with the request id where there is one."""

import asyncio
import logging
import sys
import threading
import time
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TextIO

import orjson

from holdfast.core.text.redaction import redacted

_PLAIN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "color_message"}


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage()),
        }
        extra = record.__dict__.keys() - _PLAIN
        if extra:
            line.update({name: _clean(value) for name, value in record.__dict__.items() if name in extra})
        if record.exc_info:
            line["exception"] = redacted(self.formatException(record.exc_info))
        if record.stack_info:
            line["stack"] = redacted(record.stack_info)
        return orjson.dumps(line).decode()


def _clean(value: object) -> object:
    """A fact as JSON, without credentials at any depth."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, dict):
        return {redacted(str(name)): _clean(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_clean(inner) for inner in value]
    return redacted(str(value))


class AccessLog:
    """A line for each request, past the logging machinery: that took a sixth of a small request's time.

    Lines of requests that end in one turn of the event loop are written together, when that turn ends.
    """

    def __init__(self) -> None:
        self._second = 0
        self._prefix = ""
        self._lines: list[bytes] = []

    def write(self, facts: dict[str, Any]) -> None:
        """One line, where requests are logged at all."""
        if _access_stream is None:
            return
        now = time.time()
        if int(now) != self._second:
            self._second = int(now)
            self._prefix = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(now))
        moment = f"{self._prefix}{int(now * 1000) % 1000:03d}+00:00"
        line = {"time": moment, "level": "info", "logger": "holdfast.access", "message": "request", **facts}
        if not self._lines:
            asyncio.get_running_loop().call_soon(self._flush)
        self._lines.append(orjson.dumps(line, default=str, option=orjson.OPT_APPEND_NEWLINE))

    def _flush(self) -> None:
        text, self._lines = b"".join(self._lines).decode(), []
        if _access_stream is not None:
            _access_stream.write(text)


_access_stream: TextIO | None = None


def configure_logs(level: str) -> None:
    """Send everything to stderr as JSON; stdout stays free for answers."""
    # What no line shows need not be found out for each one: that is half the cost of a request's line.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    global _access_stream
    _access_stream = sys.stderr if root.isEnabledFor(logging.INFO) else None
    # What would else be written past the formatter, with whatever it holds.
    logging.captureWarnings(True)
    threading.excepthook = lambda failed: _log_uncaught(failed.exc_type, failed.exc_value, failed.exc_traceback)
    sys.unraisablehook = lambda failed: _log_uncaught(failed.exc_type, failed.exc_value, failed.exc_traceback)
    sys.excepthook = _log_uncaught
    for noisy in ("uvicorn.access", "uvicorn.error", "mcp", "httpx", "httpx2", "httpcore", "ddgs"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _log_uncaught(kind: type[BaseException], problem: BaseException | None, trace: TracebackType | None) -> None:
    if problem is not None:
        logging.getLogger("holdfast").critical("failed", exc_info=(kind, problem, trace))
