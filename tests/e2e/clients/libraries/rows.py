"""Owns taking the rows of one library's matrix and printing what they saw; the tours import it, tests do not."""

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

ENV = json.loads(os.environ["TOUR"])
URL, KEY = ENV["url"], ENV["key"]
SERVER_TOOL = {"web_search_options": {"x_tools": ["calculator"]}}
HOSTED_TOOL = {"type": "web_search_preview", "x_tools": ["calculator"]}
WEATHER = "21 degrees in Oslo"

Row = Callable[[], Awaitable[dict[str, Any]]]
_ROWS: dict[str, Row] = {}


def row(name: str) -> Callable[[Row], Row]:
    """Make a function the row of that name; `api: kind`."""

    def keep(function: Row) -> Row:
        _ROWS[name] = function
        return function

    return keep


async def _take(function: Row) -> dict[str, Any]:
    try:
        async with asyncio.timeout(120):
            return await function()
    except BaseException as problem:
        return {"error": f"{type(problem).__name__}: {problem}"[:600], "trace": traceback.format_exc()[-1500:]}


async def _all() -> dict[str, Any]:
    only = sys.argv[1:]
    return {name: await _take(each) for name, each in _ROWS.items() if not only or name in only}


def run() -> None:
    """Take every row, one after the other, and print what each saw as JSON."""
    seen = asyncio.run(_all())
    sys.stdout.write("\n" + json.dumps(seen, default=str) + "\n")
    sys.stdout.flush()
    # Threads that a library leaves behind for its telemetry would hold the process.
    os._exit(0)
