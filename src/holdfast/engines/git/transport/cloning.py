"""Owns the process that clones and fetches: alone in its network where the kernel allows, it reaches only the tunnel.

Called as `python -I -m holdfast.engines.git.transport.cloning`. It listens on its own loopback and hands that socket to
its parent, who leads each connection to the one place that was checked."""

import fcntl
import os
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.engines.git.frames import receive, send
from holdfast.engines.sandbox.bounds import Bounds, bind

_GET_FLAGS = 0x8913
_SET_FLAGS = 0x8914
_UP = 1
_REFERENCES = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_PROGRESS_SECONDS = 0.25


def main() -> None:
    """Bind, hand out the listening socket, then fetch what the job says."""
    source = sys.stdin.buffer
    first = receive(source)
    if first is None:
        return
    if bind(Bounds(**first["bounds"])):
        _raise_loopback()
    port = _hand_out(first["fd"])
    send({"listening": port})
    job = receive(source)
    if job is None:
        return
    import pygit2

    from holdfast.engines.git.reading.repository import ReadingProblem, prepare

    prepare()
    try:
        send({"done": _fetch(job, port)})
    except ReadingProblem as problem:
        send({"failed": {"code": problem.code, "message": str(problem)}})
    except (pygit2.GitError, KeyError, ValueError, OSError) as error:
        send({"failed": {"code": "libgit2", "message": str(error)[:500]}})
    except MemoryError:
        send({"failed": {"code": "too_large", "message": "Cloning takes more memory than allowed."}})
    sys.stdout.buffer.flush()
    os._exit(0)


def _raise_loopback() -> None:
    """A new network has a loopback that is switched off."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        asked = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(control, _GET_FLAGS, asked))[1]
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _UP))


def _hand_out(fd: int) -> int:
    with socket.create_server(("127.0.0.1", 0), backlog=16) as listener, socket.socket(fileno=fd) as parent:
        socket.send_fds(parent, [b"L"], [listener.fileno()])
        return int(listener.getsockname()[1])


def _fetch(job: dict[str, Any], port: int) -> dict[str, Any]:
    import pygit2
    from pygit2.enums import FetchPrune, Option

    from holdfast.engines.git.reading.repository import open_repository

    if job["ca_file"] or job["ca_directory"]:
        pygit2.option(Option.SET_SSL_CERT_LOCATIONS, job["ca_file"] or None, job["ca_directory"] or None)
    path = job["path"]
    repo = open_repository(path) if Path(path, "HEAD").exists() else pygit2.init_repository(path, bare=True)
    # The parent has followed the redirects already, each of them checked.
    repo.config["http.followRedirects"] = "false"
    callbacks = _callbacks(job["username"], job["token"])
    url, proxy = _way(job, port)
    remote = repo.remotes.create_anonymous(url)
    remote.connect(callbacks=callbacks, proxy=proxy)
    heads = remote.list_heads(connect=False)
    names = {head.name for head in heads if head.name}
    remote.fetch(list(_REFERENCES), callbacks=callbacks, prune=FetchPrune.NO_PRUNE, proxy=proxy)
    _prune(repo, names)
    _follow_head(repo, heads)
    return {"references": len(names)}


def _way(job: dict[str, Any], port: int) -> tuple[str, str | None]:
    """The URL for libgit2, and the proxy where the name has to stay for its certificate."""
    if job["scheme"] == "https":
        return f"https://{job['authority']}{job['target']}", f"http://clone:{job['secret']}@127.0.0.1:{port}"
    return f"{job['scheme']}://127.0.0.1:{port}/{job['secret']}{job['target']}", None


def _callbacks(username: str, token: str) -> Any:
    import pygit2

    from holdfast.engines.git.reading.repository import ReadingProblem

    class Callbacks(pygit2.RemoteCallbacks):  # type: ignore[misc, unused-ignore]
        asked = 0
        told = 0.0
        complete = False

        def credentials(self, url: str, username_from_url: str | None, allowed_types: Any) -> Any:
            self.asked += 1
            if not token or self.asked > 2:
                raise ReadingProblem("unauthorized", "")
            return pygit2.UserPass(username or "x-access-token", token)

        def transfer_progress(self, stats: Any) -> None:
            now = time.monotonic()
            is_complete = stats.received_objects == stats.total_objects and not self.complete
            if is_complete or now - self.told >= _PROGRESS_SECONDS:
                self.told, self.complete = now, self.complete or is_complete
                send({"progress": [stats.received_objects, stats.total_objects]})

    return Callbacks()


def _prune(repo: Any, names: set[str]) -> None:
    """Branches and tags that the server no longer has go."""
    for raw in repo.raw_listall_references():
        if not raw.startswith((b"refs/heads/", b"refs/tags/")):
            continue
        with suppress(UnicodeDecodeError):
            if (name := raw.decode()) not in names:
                repo.lookup_reference(name).delete()


def _follow_head(repo: Any, heads: list[Any]) -> None:
    """HEAD names the server's own branch, where it says so."""
    told = next((head for head in heads if head.name == "HEAD"), None)
    if told is None:
        return
    branch = told.symref_target
    if not branch:
        same = [head.name for head in heads if head.oid == told.oid and (head.name or "").startswith("refs/heads/")]
        branch = next((name for name in ("refs/heads/main", "refs/heads/master") if name in same), None)
        branch = branch or next(iter(same), None)
    if branch and branch.startswith("refs/heads/"):
        repo.set_head(branch)


if __name__ == "__main__":
    main()
