"""Owns the process that reads repositories: bound first, it answers jobs from standard input until that ends.

Called as `python -I -m holdfast.engines.git.reading.child`. The first value is the bounds; then each job is one value,
answered by any number of values and at last `{"done": …}` or `{"failed": {…}}`."""

import os
import sys
from collections.abc import Callable
from typing import Any

from holdfast.engines.git.frames import receive, send
from holdfast.engines.sandbox.bounds import Bounds, bind


def main() -> None:
    """Bind, then answer jobs one by one."""
    source = sys.stdin.buffer
    first = receive(source)
    if first is None:
        return
    bind(Bounds(**first["bounds"]))
    # Loaded only now, under the limits.
    import pygit2

    from holdfast.engines.git.reading.repository import ReadingProblem, prepare

    prepare()
    while (job := receive(source)) is not None:
        try:
            send({"done": _answer(job)})
        except ReadingProblem as problem:
            send({"failed": {"code": problem.code, "message": str(problem)}})
        except (MemoryError, RecursionError):
            send({"failed": {"code": "too_large", "message": "Reading it takes more memory than allowed."}})
        except (pygit2.GitError, KeyError, OSError, ValueError) as error:
            why = f"The repository is damaged: {str(error)[:400]}. `git fsck` tells more; a fresh clone may help."
            send({"failed": {"code": "damaged", "message": why}})
    sys.stdout.buffer.flush()
    os._exit(0)


def _answer(job: dict[str, Any]) -> object:
    from holdfast.engines.git.reading.repository import find_head, open_repository

    repo = open_repository(job["path"])
    if job["also"] is not None:
        repo.odb.add_disk_alternate(job["also"])
    # Each loads only what it needs: all the grammars take as long to load as a thousand commits to read.
    match job["job"]:
        case "head":
            return find_head(repo, job["arguments"]["branch"])
        case "history":
            from holdfast.engines.git.reading import history

            history.walk(repo, job["head"], job["limits"], job["known_head"], _ask_known, send)
        case "snapshot":
            from holdfast.engines.git.reading import files

            files.walk(repo, job["head"], job["limits"], job["known"], send)
        case "checkout":
            from holdfast.engines.git.reading.checkout import checkout

            return checkout(repo, job["limits"], job["commit"], job["directory"])
        case name:
            from holdfast.engines.git.reading import looks

            look: Callable[..., object] = looks.LOOKS[name]
            return look(repo, job["limits"], **job["arguments"])
    return None


def _ask_known() -> list[bytes]:
    """The hashes that the parent keeps; many, so they come as one text of hexadecimal digits."""
    send({"ask": "known"})
    given: str = receive(sys.stdin.buffer) or ""
    raw = bytes.fromhex(given)
    return [raw[at : at + 20] for at in range(0, len(raw), 20)]


if __name__ == "__main__":
    main()
