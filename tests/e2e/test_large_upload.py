"""A 200 MB upload through the real server: its memory stays flat, and a file that cannot be read says so."""

import threading
import time
from pathlib import Path

import httpx
import psutil
import pytest

from tests.e2e.test_up import up

pytestmark = pytest.mark.slow

MEGABYTE = 1024 * 1024
SIZE = 200 * MEGABYTE
MOST_GROWTH = 100 * MEGABYTE


class _Peak:
    """The most memory that a process has while this is open."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.bytes = 0

    def __enter__(self) -> "_Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def wait(self, seconds: float) -> None:
        """Let it go on for a moment."""
        self._ended.wait(seconds)

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            self.bytes = max(self.bytes, private(self._process.pid))


def private(pid: int) -> int:
    """The memory that is the process's own: pages of the database file that are mapped can be dropped at any time."""
    memory = psutil.Process(pid).memory_info()
    return int(memory.rss - memory.shared)


def test_two_hundred_megabytes_are_taken_in_with_flat_memory(tmp_path: Path) -> None:
    large = tmp_path / "large.pdf"
    with large.open("wb") as file:
        file.write(b"%PDF-1.7\n")
        file.truncate(SIZE)
    with up(tmp_path / "data") as (started, process):
        base = f"{started['url']}/api/workspaces/{started['workspace_id']}/documents"
        headers = {"Authorization": f"Bearer {started['api_key']}"}
        with httpx.Client(headers=headers, timeout=120, trust_env=False) as client:
            small = client.post(base, files={"file": ("small.pdf", b"%PDF-1.7\nnothing")})
            assert small.status_code == 201, small.text
            # The model is loaded after the start, and is no part of what an upload takes.
            for content in ("Reports are uploaded on Friday", "Reports are read by the auditors"):
                saved = client.post(base.replace("/documents", "/memories"), json={"content": content})
                assert saved.status_code == 201, saved.text
            # A save waits for no model; whoever asks for a vector does.
            vectors = f"{started['url']}/{started['project_id']}/default/v1/embeddings"
            made = client.post(vectors, json={"model": "all-MiniLM-L6-v2", "input": "who reads reports " * 60})
            assert made.status_code == 200, made.text
            before = private(process.pid)

            with _Peak(process.pid) as peak, large.open("rb") as file:
                answer = client.post(base, files={"file": ("large.pdf", file, "application/pdf")})
                assert answer.status_code == 201, answer.text
                document = answer.json()
                until = time.monotonic() + 90
                while document["state"] not in ("ready", "failed") and time.monotonic() < until:
                    # Seldom: nobody reads the log that each request writes.
                    peak.wait(0.5)
                    document = client.get(f"{base}/{document['id']}").json()

            assert document["size_bytes"] == SIZE
            assert (document["state"], document["reason_code"]) == ("failed", "damaged")
            assert peak.bytes - before < MOST_GROWTH
            with client.stream("GET", f"{base}/{document['id']}/content") as response:
                assert sum(len(piece) for piece in response.iter_bytes()) == SIZE
            assert client.delete(f"{base}/{document['id']}").status_code == 204
