"""Owns structured logs: one JSON object a line, on stderr, with the request id where there is one."""

import logging
import sys
import time
from datetime import UTC, datetime
from typing import Any, TextIO

import orjson

_PLAIN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "color_message"}


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        extra = record.__dict__.keys() - _PLAIN
        if extra:
            line.update({name: value for name, value in record.__dict__.items() if name in extra})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


class AccessLog:
    """A line for each request, past the logging machinery: that took a sixth of a small request's time."""

    def __init__(self) -> None:
        self._second = 0
        self._prefix = ""

    def write(self, facts: dict[str, Any]) -> None:
        """One line, where requests are logged at all."""
        stream = _access_stream
        if stream is None:
            return
        now = time.time()
        if int(now) != self._second:
            self._second = int(now)
            self._prefix = time.strftime("%Y-%m-%dT%H:%M:%S.", time.gmtime(now))
        moment = f"{self._prefix}{int(now * 1000) % 1000:03d}+00:00"
        line = {"time": moment, "level": "info", "logger": "holdfast.access", "message": "request", **facts}
        stream.write(orjson.dumps(line, default=str).decode() + "\n")


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
    for noisy in ("uvicorn.access", "uvicorn.error", "mcp", "httpx", "httpcore", "ddgs"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
