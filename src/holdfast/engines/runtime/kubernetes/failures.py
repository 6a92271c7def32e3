"""Owns saying in one plain sentence why a pod does not run, or no longer."""

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.engines.runtime.base import Ended
from holdfast.engines.runtime.kubernetes.cluster.api import Object

_IMAGES = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
_CONFIG = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff")
_NODE = ("NodeLost", "NodeAffinity", "NodeShutdown", "Terminated", "Shutdown", "UnexpectedAdmissionError")


@dataclass(frozen=True, slots=True)
class PodFailure:
    """Why, for people, and as which end of a run it counts."""

    code: str
    said: str
    how: Ended = "lost"
    is_final: bool = True
    """False where it may still come right by itself: a node may be added, a registry may come back."""


def failure_of(pod: Object) -> PodFailure | None:
    """Why this pod does not run or was ended from outside; None where nothing is wrong with it."""
    status = pod.get("status") or {}
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "").strip()
    if reason == "DeadlineExceeded":
        seconds = pod["spec"].get("activeDeadlineSeconds")
        return PodFailure("deadline", f"It was stopped because it lived for more than {seconds} seconds.", "time")
    if reason == "Evicted":
        is_disk = any(word in message for word in ("ephemeral", "emptyDir", "EmptyDir", "inodes"))
        return PodFailure("evicted", f"The cluster evicted it: {message}", "disk" if is_disk else "lost")
    if reason in _NODE or (status.get("phase") == "Unknown"):
        return PodFailure("node_gone", f"Its node is gone: {message or reason or 'it no longer answers'}.")
    if reason.startswith("OutOf") or reason in ("Preempting", "Preempted"):
        return PodFailure("unschedulable", f"Its node had no room for it: {message or reason}.")
    for name, state in _states(status):
        problem = _of_container(name, state)
        if problem is not None:
            return problem
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            said = f"No node has room for it: {str(condition.get('message') or '').strip()}"
            return PodFailure("unschedulable", said, is_final=False)
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return PodFailure("evicted", f"The cluster took it away: {condition.get('message') or ''}".strip())
    return None


def gone(pod: Object) -> PodFailure:
    """Why a pod that was deleted by somebody else is not there."""
    return failure_of(pod) or PodFailure("gone", "Its pod was deleted by somebody else, or with its node.")


def ended_before(pod: Object | None, container: str) -> PodFailure | None:
    """Why a container that nothing was run in yet has ended; None where it has not."""
    for name, state in _states((pod or {}).get("status") or {}):
        ended = state.get("terminated")
        if name == container and ended is not None:
            status = f"it ended at once with status {ended.get('exitCode')}"
            return PodFailure(
                "config_error", f"Its container {name} can't be started: {ended.get('message') or status}"
            )
    return None


def _states(status: Object) -> Iterator[tuple[str, Object]]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        for each in status.get(kind) or ():
            yield str(each.get("name")), each.get("state") or {}


def _of_container(name: str, state: Object) -> PodFailure | None:
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "").strip()
    if reason in _IMAGES:
        said = f"The image of its container {name} can't be fetched: {message or reason}"
        # The kubelet tries again by itself, and says so with the second of these words.
        return PodFailure("image_missing", said, is_final=reason != "ErrImagePull")
    if reason in _CONFIG:
        return PodFailure("config_error", f"Its container {name} can't be started: {message or reason}")
    if ended.get("reason") == "OOMKilled":
        return PodFailure("memory", f"Its container {name} used more memory than it may.", "memory")
    if ended.get("reason") in ("ContainerCannotRun", "StartError"):
        said = str(ended.get("message") or ended["reason"]).strip()
        return PodFailure("config_error", f"Its container {name} can't be started: {said}")
    return None
