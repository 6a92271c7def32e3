"""Owns what there is to reach outside of a sandbox: files, sockets, a process, each of which can really be reached."""

import socket
import subprocess
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECRET = "a secret of the server 5d3f"


@contextmanager
def places_outside(directory: Path) -> Iterator[dict[str, Any]]:
    """What an attacker is told to look for, while it is there."""
    key = directory / "master.key"
    key.write_text("the master key")
    key.chmod(0o644)
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        name = f"holdfast-test-{uuid.uuid4().hex}"
        abstract.bind(f"\0{name}")
        path = f"/tmp/{name}.sock"
        with socket.socket(socket.AF_UNIX) as file:
            file.bind(path)
            Path(path).chmod(0o777)
            for listener in (abstract, file, tcp):
                listener.listen(16)
                threading.Thread(target=_accept, args=(listener,), daemon=True).start()
            other = subprocess.Popen(["sleep", "600"], env={"SECRET": SECRET})
            try:
                yield {
                    "files": [str(key), str(directory)],
                    "port": tcp.getsockname()[1],
                    "abstract": name,
                    "socket": path,
                    "outside_pid": other.pid,
                    "outside_secret_backwards": SECRET[::-1],
                }
            finally:
                other.kill()
                other.wait()
                Path(path).unlink()


def _accept(listener: socket.socket) -> None:
    while True:
        try:
            listener.accept()[0].close()
        except OSError:
            return
