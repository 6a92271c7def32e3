"""An agent that wants out: it speaks our protocol, and does nothing but try. Standard library only, beside attacker.py.

Its environment says what there is to reach (`PLACES`); what each attempt came to is told as the end of a call.
"""

import contextlib
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.sandbox import attacker
else:
    # It lies beside this file where this runs.
    sys.path.insert(0, "/work")
    import attacker

PLACES = attacker.PLACES
SEEN = {
    "/home": ["agent"],
    "/run/x1": PLACES.get("run_x1", ["mcp"]),
    "/run/x1/mcp": ["harbour.sock"],
    "/run": ["x1"],
}


@attacker.attack
def find_other_sessions() -> str | None:
    for path, expected in SEEN.items():
        found = sorted(os.listdir(path))
        if found != expected:
            return f"{path}: {found}"
    for path in PLACES["others"]:
        for place in (path, f"/proc/1/root{path}", f"/proc/self/root/..{path}", f"/proc/1/cwd{path}"):
            if os.path.lexists(place):
                return place
    return None


@attacker.attack
def follow_links_out_of_the_worktree() -> str | None:
    for number, target in enumerate((*PLACES["others"], *PLACES["files"], "/etc/shadow", "/proc/1/environ")):
        link = Path(f"/work/link{number}")
        link.symlink_to(target)
        with contextlib.suppress(OSError):
            found = os.listdir(link) if link.is_dir() else link.read_bytes()
            if found:
                return f"{target}: {found!r}"
    return None


@attacker.attack
def link_files_of_the_machine_into_the_worktree() -> str | None:
    for number, target in enumerate(("/usr/bin/env", "/etc/passwd", "/opt/pipe.py")):
        with contextlib.suppress(OSError):
            os.link(target, f"/work/hard{number}")
            return target
    return None


@attacker.attack
def open_every_family_of_sockets() -> str | None:
    known = {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}
    opened: list[str] = []
    for family in range(64):
        for kind in (1, 2, 3, 4, 5, 10):
            with contextlib.suppress(OSError), socket.socket(family, kind):
                # To the kernel a raw socket of files is one of datagrams.
                if family not in known or (kind == socket.SOCK_RAW and family in (socket.AF_INET, socket.AF_INET6)):
                    opened.append(f"{family}/{kind}")
    return ",".join(opened) or None


@attacker.attack
def connect_everywhere() -> str | None:
    hosts = ("127.0.0.1", "127.0.0.2", "::1", "10.0.2.2", "169.254.169.254", "192.168.0.1", "fe80::1", PLACES["host"])
    for host in hosts:
        for port in (PLACES["port"], 22, 53, 80, 443, 3128, 4711):
            if host in ("127.0.0.1", "127.0.0.2") and port == 4711:
                continue
            with contextlib.suppress(OSError), socket.create_connection((host, port), 1):
                return f"{host}:{port}"
    return None


@attacker.attack
def fork_without_end() -> str | None:
    children: list[int] = []
    try:
        while len(children) < 1_000:
            child = os.fork()
            if child == 0:
                os.read(0, 1)
                os._exit(0)
            children.append(child)
    except OSError:
        pass
    for child in children:
        os.kill(child, 9)
        os.waitpid(child, 0)
    return str(len(children)) if len(children) > PLACES["processes"] else None


@attacker.attack
def write_a_file_without_end() -> str | None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    written = 0
    with contextlib.suppress(OSError), open("/work/big", "wb") as file:
        while written <= PLACES["file_bytes"]:
            written += os.write(file.fileno(), bytes(1 << 20))
    os.unlink("/work/big")
    return str(written) if written > PLACES["file_bytes"] else None


@attacker.attack
def change_what_the_next_one_runs() -> str | None:
    for path in (
        "/opt/pipe.py",
        f"/proc/self/root{sys.executable}",
        "/run/x1/mcp/new.sock",
        "/run/x1/mcp/harbour.sock",
    ):
        with contextlib.suppress(OSError):
            if path.endswith(".sock"):
                Path(path).unlink() if "harbour" in path else Path(path).touch()
            else:
                with open(path, "ab") as file:
                    file.write(b"#")
            return path
    return None


def stay_behind() -> None:
    """A child in a session of its own, whose parents are gone."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for descriptor in (0, 1, 2):
                os.close(descriptor)
            os.execv("/bin/sh", ["sh", "-c", f": {PLACES['mark']}; trap '' TERM HUP; while :; do sleep 600; done"])
        os._exit(0)
    os.wait()


def tell(**message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    tell(type="ready")
    while json.loads(sys.stdin.readline()).get("type") != "start":
        pass
    for name, run in attacker.ATTACKS.items():
        tell(type="tool_started", call_id=name, name=name, arguments={})
        try:
            got = run()
        except OSError as problem:
            got, why = None, str(problem.strerror)
        else:
            why = "nothing there"
        tell(type="tool_ended", call_id=name, ok=got is not None, text=got or why)
    stay_behind()
    tell(type="turn_over", reason="done", text="")
    sys.stdin.readline()


if __name__ == "__main__":
    main()
