"""Owns what is known of our pods: the API server's own list, kept up by a watch, and what is nobody's any more."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from holdfast.core.errors import HoldfastError
from holdfast.engines.runtime.kubernetes.cluster.api import ApiProblem, ClusterApi, Object, WatchExpired
from holdfast.engines.runtime.kubernetes.names import SELECTOR

Heard = Callable[[str, Object], None]
"""Told of a pod: `ADDED`, `MODIFIED` or `DELETED`, and the pod as it is."""

_PAGE = 500
_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE = 15.0
_OVER_SECONDS = 30.0
_PENDING_SECONDS = 600.0
_DELETED_AT_ONCE = 16

_log = logging.getLogger(__name__)


class PodWatch:
    """Follows all our pods by one watch."""

    def __init__(self, api: ClusterApi, namespace: str | None) -> None:
        """`namespace` where all are in one; else they are followed in the whole cluster."""
        self._api = api
        self._path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        self._pods: dict[tuple[str, str], Object] = {}
        self._listeners: dict[tuple[str, str], Heard] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to follow, once; HoldfastError where the first list is refused."""
        if self._task is None or self._task.done():
            version = await self._list()
            self._task = asyncio.create_task(self._follow(version))

    async def stop(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def listen(self, namespace: str, name: str, heard: Heard) -> None:
        """Be told of a pod from now on."""
        self._listeners[(namespace, name)] = heard
        known = self._pods.get((namespace, name))
        if known is not None:
            heard("MODIFIED", known)

    def leave(self, namespace: str, name: str) -> None:
        """Be told no more."""
        self._listeners.pop((namespace, name), None)

    async def sweep(self) -> None:
        """Delete what is over, or never began, and is nobody's of this process: whoever made it is gone."""
        left = [each for key, each in self._pods.items() if key not in self._listeners and _is_left(each)]
        at_once = asyncio.Semaphore(_DELETED_AT_ONCE)
        await asyncio.gather(*(self._collect(each, at_once) for each in left))

    async def _list(self) -> str:
        """Everything as it is; the version from which changes follow."""
        found: dict[tuple[str, str], Object] = {}
        go_on = ""
        while True:
            asked = {"labelSelector": SELECTOR, "limit": str(_PAGE), **({"continue": go_on} if go_on else {})}
            try:
                page = await self._api.request("GET", self._path, params=asked)
            except ApiProblem as problem:
                if problem.status_code != 410 or not go_on:
                    raise
                # The pages took so long that they can't be gone on with.
                found, go_on = {}, ""
                continue
            found |= {_key(each): each for each in page.get("items") or ()}
            go_on = page["metadata"].get("continue") or ""
            if not go_on:
                break
        gone = [each for key, each in self._pods.items() if key not in found]
        self._pods = found
        for each in gone:
            self._tell("DELETED", each)
        for each in found.values():
            self._tell("MODIFIED", each)
        return str(page["metadata"]["resourceVersion"])

    async def _follow(self, version: str) -> None:
        pause = _PAUSE_SECONDS
        while True:
            try:
                asked = {"labelSelector": SELECTOR, "resourceVersion": version}
                async for kind, pod in self._api.watch(self._path, asked):
                    version = str(pod["metadata"]["resourceVersion"])
                    pause = _PAUSE_SECONDS
                    if kind != "BOOKMARK":
                        self._note(kind, pod)
            except WatchExpired:
                pass
            except HoldfastError as problem:
                _log.warning("Pods can't be followed for the moment: %s", problem.message)
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, pause * 2)
            try:
                version = await self._list()
            except HoldfastError as problem:
                _log.warning("Pods can't be listed for the moment: %s", problem.message)
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, pause * 2)

    def _note(self, kind: str, pod: Object) -> None:
        if kind == "DELETED":
            self._pods.pop(_key(pod), None)
        else:
            self._pods[_key(pod)] = pod
        self._tell(kind, pod)

    def _tell(self, kind: str, pod: Object) -> None:
        heard = self._listeners.get(_key(pod))
        if heard is not None:
            heard(kind, pod)

    async def _collect(self, pod: Object, at_once: asyncio.Semaphore) -> None:
        namespace, name = _key(pod)
        # A session that begins again has its pod under the same name: what is known here may be of the one before.
        only = {"preconditions": {"uid": pod["metadata"]["uid"]}}
        async with at_once:
            _log.info("Pod %s of %s is nobody's and is deleted.", name, namespace)
            try:
                await self._api.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", only)
            except ApiProblem as problem:
                if problem.status_code not in (404, 409):
                    _log.warning("Pod %s could not be deleted: %s", name, problem.message)


def _key(pod: Object) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _is_left(pod: Object) -> bool:
    status, about = pod.get("status") or {}, pod["metadata"]
    if about.get("deletionTimestamp"):
        return False
    if status.get("phase") in ("Succeeded", "Failed"):
        return _age(_ended_at(status) or about["creationTimestamp"]) > _OVER_SECONDS
    return status.get("phase") == "Pending" and _age(about["creationTimestamp"]) > _PENDING_SECONDS


def _ended_at(status: Object) -> str | None:
    ends = [
        str(((each.get("state") or {}).get("terminated") or {}).get("finishedAt") or "")
        for each in status.get("containerStatuses") or ()
    ]
    return max(ends, default="") or None


def _age(moment: str) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(moment.replace("Z", "+00:00"))).total_seconds()
