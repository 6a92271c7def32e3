"""Owns what is wrong with a pod though its schema is right: the profile 'restricted', and what real nodes refused."""

import re
from collections.abc import Iterator
from typing import Any

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def wrong_with(pod: dict[str, Any]) -> list[str]:
    """Each thing that is wrong, as a sentence."""
    return list(_wrong(pod))


def _wrong(pod: dict[str, Any]) -> Iterator[str]:
    spec = pod["spec"]
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    volumes = {each["name"]: each for each in spec["volumes"]}
    context = spec["securityContext"]
    if not _NAME.fullmatch(pod["metadata"]["name"]):
        yield "metadata.name is no label"
    if spec.get("automountServiceAccountToken") is not False:
        yield "a service account's token is mounted"
    if not context.get("runAsNonRoot") or context.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "the pod's securityContext is not 'restricted'"
    if "runAsGroup" in context and "runAsUser" not in context:
        yield "the pod has a group and no user: containerd refuses that"
    if not spec.get("activeDeadlineSeconds"):
        yield "it may live for ever"
    if any(set(each) - {"name", "emptyDir"} for each in volumes.values()):
        yield "a volume is no emptyDir"
    names = [each["name"] for each in containers]
    if len(set(names)) < len(names) or not all(_NAME.fullmatch(name) for name in names):
        yield "names of containers"
    for container in containers:
        yield from _container(container, volumes)
    for each in (*names, *volumes):
        if len(each) > 63:
            yield f"{each} is too long"


def _container(container: dict[str, Any], volumes: dict[str, Any]) -> Iterator[str]:
    name, context = container["name"], container.get("securityContext", {})
    wanted = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for key, value in wanted.items():
        if context.get(key) != value:
            yield f"{name}: {key} is {context.get(key)!r}"
    if not context.get("runAsUser", 0) >= 1000:
        yield f"{name}: runs as a user of the machine"
    if not {"memory", "ephemeral-storage"} <= set(container.get("resources", {}).get("limits", {})):
        yield f"{name}: has no limits"
    for mount in container.get("volumeMounts", ()):
        if mount["name"] not in volumes:
            yield f"{name}: mounts {mount['name']}, which is no volume"
    paths = [mount["mountPath"] for mount in container.get("volumeMounts", ())]
    if len(set(paths)) < len(paths):
        yield f"{name}: mounts two volumes at one place"
    for each in container.get("env", ()):
        if ("value" in each) == ("valueFrom" in each) or set(each.get("valueFrom", {})) - {"secretKeyRef"}:
            yield f"{name}: {each['name']} has not just one source"
