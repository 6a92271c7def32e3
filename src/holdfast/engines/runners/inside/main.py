"""Owns the program's life: what it is told on its input, one turn after the other, and its end with that input.

Run in the sandbox as `python -I -S -c 'from …inside.main import main; main()'`, with this folder mounted read-only.
"""

import json
import os
import sys
import threading
from collections import deque
from typing import Any

from holdfast.engines.runners.inside.journal import Journal
from holdfast.engines.runners.inside.loop import AgentLoop
from holdfast.engines.runners.inside.model import AskedModel
from holdfast.engines.runners.inside.servers import Servers
from holdfast.engines.runners.inside.stopping import Stopping
from holdfast.engines.runners.inside.tools import own_tools


class Inbox:
    """What was said to the agent and not yet taken up."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._texts: deque[str] = deque()
        self.heard = 0
        """How many messages it has taken up."""

    def put(self, text: str) -> None:
        with self._changed:
            self._texts.append(text)
            self._changed.notify()

    def take(self) -> list[str]:
        """Everything that is there now."""
        with self._changed:
            texts = list(self._texts)
            self._texts.clear()
            self.heard += len(texts)
            return texts

    def wait(self) -> list[str]:
        """Everything that is there, once something is."""
        with self._changed:
            while not self._texts:
                self._changed.wait()
        return self.take()


def tell(message: dict[str, Any]) -> None:
    """Say something to Holdfast."""
    data = json.dumps(message).encode() + b"\n"
    with _out:
        while data:
            data = data[os.write(1, data) :]


_out = threading.Lock()


def work(start: dict[str, Any], inbox: Inbox, stopping: Stopping) -> None:
    """Every turn, until the process ends."""
    servers = Servers(start["servers"], tell, stopping)
    journal = Journal(os.environ["HOME"], start.get("resume"))
    model = AskedModel(start["model_url"], start["model_key"], start["model"], stopping)
    tools = {tool.name: tool for tool in (*own_tools(os.getcwd(), stopping), *servers.tools())}
    tell({"type": "can_resume", "token": journal.token})
    loop = AgentLoop(model, tools, journal, inbox.take, tell, stopping)
    loop.instruct(start["instructions"], servers.missing)
    texts = [start["prompt"]]
    while True:
        reason, text = loop.turn(texts)
        tell({"type": "turn_over", "reason": reason, "text": text, "heard": inbox.heard})
        texts = inbox.wait()


def main() -> None:
    """Read what comes; the end of it is the end of everything here."""
    inbox, stopping = Inbox(), Stopping()
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message["type"] == "start":
            threading.Thread(target=_working, args=(message, inbox, stopping), daemon=True).start()
        elif message["type"] == "message":
            inbox.put(message["text"])
        elif message["type"] == "interrupt":
            stopping.stop()
    os._exit(0)


def _working(start: dict[str, Any], inbox: Inbox, stopping: Stopping) -> None:
    try:
        work(start, inbox, stopping)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
        # Without its worker the program would sit there for good.
        os._exit(1)
