"""Owns what a pod looks like: its containers and what each of them sees, as plain objects of the cluster's API."""

import hashlib
import json
import math
import platform
import secrets as random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.runtime.base import Mounted, RunSpec
from holdfast.engines.runtime.bwrap import PROXY_PORT, environment
from holdfast.engines.runtime.kubernetes.cluster.api import Object
from holdfast.engines.runtime.kubernetes.names import (
    BOXES,
    BRIDGE,
    CONTROL,
    GATE,
    IMAGE_PLACE,
    KIND,
    LABEL,
    MANAGED,
    PYTHON,
    name_of,
)
from holdfast.engines.runtime.kubernetes.secrets import SecretKey
from holdfast.engines.runtime.packages import python_program

ACCOUNT = "holdfast-session"
"""The service account of pods; it may do nothing, and its token is in none of them."""
PATIENCE_SECONDS = 60
GROUP_PATIENCE_SECONDS = 900
"""How long a pod waits for Holdfast to dial: one that others wait for, for the length of a restart."""
_GRACE_SECONDS = 1
_SPARE_SECONDS = 60
_MIB = 1 << 20
_SIDECAR_MEMORY = 128
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_SYSTEM = ("", "/usr", "/usr/bin", "/usr/local/bin", "/bin", "/lib", "/etc", "/proc", "/dev", "/sys", "/run")
_OURS = tuple(str(each) for each in (*Path(IMAGE_PLACE).parents, IMAGE_PLACE))
"""What would hide our own programs in images of ours."""
_FIRST_USER, _USERS, _USERS_OF_POD = 100_000, 100_000, 64


@dataclass(frozen=True, slots=True)
class PodImages:
    """Which images pods are made of."""

    session: str
    """Ours: the sidecar, agents, git and shells."""
    server: str
    """For servers that are commands: node, python and uv."""
    pull_policy: str
    pull_secret: str | None = None


@dataclass(frozen=True, slots=True)
class Box:
    """One container of a program, with what it was made for."""

    name: str
    index: int
    spec: RunSpec
    held: frozenset[str]
    """Where it has directories that can be filled and read."""
    proxy_port: int
    token: str = field(default_factory=lambda: random.token_hex(16), repr=False)
    """What its program shows to its proxy: all containers of a pod share one loopback."""

    @property
    def is_server(self) -> bool:
        return self.spec.role == "server"

    @property
    def socket(self) -> str:
        """The bridge's socket, as the container sees it."""
        return f"{GATE}/{self.name.removeprefix('mcp-')}.sock" if self.is_server else f"/run/x1/box/{self.name}.sock"

    @property
    def socket_outside(self) -> str:
        """The same, as the sidecar sees it."""
        return f"{BOXES}/{self.index}/{Path(self.socket).name}"

    @property
    def command(self) -> tuple[str, ...]:
        """Its program; our interpreter goes by its name in images of ours."""
        first, *rest = self.spec.command
        return (PYTHON if first == python_program() else first, *rest)

    def env(self) -> dict[str, str]:
        """Everything in the program's environment but secrets."""
        made = environment(self.spec, f"http://holdfast:{self.token}@127.0.0.1:{self.proxy_port}")
        return {name: value for name, value in made.items() if name not in secret_names(self.spec)}


def secret_names(spec: RunSpec) -> frozenset[str]:
    """The variables whose values are of secrets."""
    return frozenset(name for name, value in spec.env.items() if value and value in spec.secrets)


def kept_keys(boxes: Mapping[str, Box], namespace: str) -> dict[str, SecretKey]:
    """The values that the pod's namespace keeps already, by what they are called in the pod's secrets."""
    found: dict[str, SecretKey] = {}
    for box in boxes.values():
        for name in secret_names(box.spec) & box.spec.kept.keys():
            at = box.spec.kept[name]
            where, _, object_name = at.ref.partition("/")
            if where == namespace:
                found[secret_key(box.name, name)] = SecretKey(object_name, at.key)
    return found


def boxes_of(spec: RunSpec) -> dict[str, Box]:
    """The containers of a program and its companions, by their names."""
    found: dict[str, Box] = {}
    for index, each in enumerate((spec, *spec.companions)):
        name = box_name(each)
        held = {mount.target for mount in each.mounts if is_brought(mount)} | set(each.later)
        found[name] = Box(name, index, each, frozenset(held), PROXY_PORT + index)
    return found


def box_name(spec: RunSpec) -> str:
    """What a program's container is called."""
    return f"mcp-{name_of(spec.name, 50)}" if spec.role == "server" else spec.role


def is_brought(mount: Mounted) -> bool:
    """Whether its content goes to the pod; the gate's sockets and what images have do not."""
    return not mount.in_images and mount.target != GATE


def as_directories(spec: RunSpec) -> RunSpec:
    """The same with each mounted file as a directory that holds just it: a pod's volumes are directories."""
    mounts = tuple(
        replace(mount, target=str(PurePosixPath(mount.target).parent)) if mount.source.is_file() else mount
        for mount in spec.mounts
        if is_brought(mount) or mount.target == GATE
    )
    return replace(spec, mounts=mounts, companions=tuple(as_directories(each) for each in spec.companions))


def pod_name(spec: RunSpec) -> str:
    """The group's, so that a second one can't be made; else one of its own."""
    return name_of(spec.group) if spec.group else f"{name_of(spec.name, 40)}-{random.token_hex(5)}"


def pod_of(
    name: str, boxes: Mapping[str, Box], keys: Mapping[str, SecretKey], images: PodImages, *, native_sidecars: bool
) -> Object:
    """The pod as it is created."""
    first = next(iter(boxes.values())).spec
    has_gate = any(mount.target == GATE for mount in first.mounts)
    sidecar = _sidecar(boxes, images, has_gate)
    containers = [_container(box, keys, images, has_gate) for box in boxes.values()]
    before: list[Object] = []
    if any(box.spec.image for box in boxes.values()):
        before.append(_bridge(images))
    if native_sidecars:
        before.append({**sidecar, "restartPolicy": "Always"})
    else:
        # First: it is dialled while the others are started.
        containers.insert(0, sidecar)
    user = _first_user(name)
    for index, container in enumerate([*containers, *before]):
        # Another user in each: none of them could signal, trace or read the others even where they meet.
        container["securityContext"]["runAsUser"] = user + index + 1
    spec: Object = {
        "restartPolicy": "Never",
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "activeDeadlineSeconds": _deadline(first),
        "nodeSelector": {"kubernetes.io/os": "linux", "kubernetes.io/arch": _machine()},
        "securityContext": {
            "runAsNonRoot": True,
            # Without a user of the pod some runtimes refuse the group.
            "runAsUser": user,
            "runAsGroup": user,
            "fsGroup": user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": containers,
        "volumes": _volumes(boxes, has_gate),
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["127.0.0.1"]},
    }
    if before:
        spec["initContainers"] = before
    if images.pull_secret:
        spec["imagePullSecrets"] = [{"name": images.pull_secret}]
    labels = {**MANAGED, LABEL: name, KIND: "session" if first.group else first.role}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def _sidecar(boxes: Mapping[str, Box], images: PodImages, has_gate: bool) -> Object:
    first = next(iter(boxes.values())).spec
    told = {
        "control": CONTROL,
        "sockets": GATE,
        "boxes": {box.name: box.socket_outside for box in boxes.values()},
        "patience": GROUP_PATIENCE_SECONDS if first.group else PATIENCE_SECONDS,
    }
    mounts = [{"name": "control", "mountPath": str(Path(CONTROL).parent)}]
    mounts += [{"name": f"box-{box.index}", "mountPath": f"{BOXES}/{box.index}"} for box in boxes.values()]
    if has_gate:
        mounts.append({"name": "gate", "mountPath": GATE})
    return {
        "name": "sidecar",
        "image": images.session,
        "imagePullPolicy": images.pull_policy,
        "command": [PYTHON, "-I", "-S", "-B", f"{IMAGE_PLACE}/sidecar.py", json.dumps(told)],
        "volumeMounts": mounts,
        "resources": _resources(_SIDECAR_MEMORY, 64, 1),
        "securityContext": _confined(),
    }


def _bridge(images: PodImages) -> Object:
    """Puts the bridge, and a Python that needs nothing of the image that it comes to, where containers find them."""
    return {
        "name": "bridge",
        "image": images.session,
        "imagePullPolicy": images.pull_policy,
        "command": [PYTHON, "-I", "-S", "-B", f"{IMAGE_PLACE}/carry.py", BRIDGE],
        "volumeMounts": [{"name": "bridge", "mountPath": BRIDGE}],
        "resources": _resources(_SIDECAR_MEMORY, 64, 1),
        "securityContext": _confined(),
    }


def _container(box: Box, keys: Mapping[str, SecretKey], images: PodImages, has_gate: bool) -> Object:
    spec = box.spec
    mounts: list[Object] = [{"name": f"box-{box.index}", "mountPath": str(Path(box.socket).parent)}]
    mounts += [{"name": name, "mountPath": target} for target, name in _places(box).items()]
    if has_gate and not box.is_server:
        mounts.append({"name": "gate", "mountPath": GATE, "readOnly": True})
    bridge = [PYTHON, "-I", "-S", "-B", f"{IMAGE_PLACE}/bridge.py"]
    if spec.image:
        mounts.append({"name": "bridge", "mountPath": BRIDGE, "readOnly": True})
        bridge = [f"{BRIDGE}/loader", "--library-path", f"{BRIDGE}/lib", f"{BRIDGE}/bin/python3"]
        bridge += ["-I", "-S", "-B", f"{BRIDGE}/bridge.py"]
    # What a server is run with is for everybody to read in the pod; an agent's is told when it starts.
    shown = box.env() if box.is_server else {}
    env: list[Object] = [{"name": name, "value": _literal(value)} for name, value in _plain(spec, shown).items()]
    secret = sorted(secret_names(spec))
    env += [{"name": name, "valueFrom": keys[secret_key(box.name, name)].source} for name in secret]
    return {
        "name": box.name,
        "image": spec.image or (images.server if box.is_server else images.session),
        "imagePullPolicy": images.pull_policy,
        "command": bridge,
        "args": [box.socket, *(["--", *(_literal(word) for word in box.command)] if box.is_server else [])],
        "env": env,
        "volumeMounts": mounts,
        "resources": _resources(
            math.ceil(spec.limits.memory_bytes / _MIB), math.ceil(spec.limits.file_bytes / _MIB) + 64, None
        ),
        "securityContext": _confined(),
    }


def _plain(spec: RunSpec, shown: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in spec.env.items() if name in shown}


def _literal(text: str) -> str:
    """Text in which the cluster replaces nothing: it reads `$(NAME)` otherwise."""
    return text.replace("$(", "$$(")


def secret_key(box: str, name: str) -> str:
    """What a value is called in the pod's secrets."""
    return f"{box}.{name}"


def _places(box: Box) -> dict[str, str]:
    """The container's own directories, and their volumes."""
    targets = sorted({*box.held, "/tmp", "/work"})  # noqa: S108 - the container's own
    return {target: f"dir-{box.index}-{number}" for number, target in enumerate(targets)}


def _volumes(boxes: Mapping[str, Box], has_gate: bool) -> list[Object]:
    small: Object = {"sizeLimit": "16Mi"}
    made: list[Object] = [{"name": "control", "emptyDir": small}]
    if has_gate:
        made.append({"name": "gate", "emptyDir": small})
    if any(box.spec.image for box in boxes.values()):
        made.append({"name": "bridge", "emptyDir": {"sizeLimit": "64Mi"}})
    for box in boxes.values():
        made.append({"name": f"box-{box.index}", "emptyDir": small})
        most = {mount.target: mount.most_bytes for mount in box.spec.mounts}
        for target, name in _places(box).items():
            size = math.ceil((most.get(target) or box.spec.limits.file_bytes) / _MIB)
            made.append({"name": name, "emptyDir": {"sizeLimit": f"{size + 16}Mi"}})
    return made


def _resources(memory_mib: int, disk_mib: int, cpu: int | None) -> Object:
    limits = {"memory": f"{memory_mib}Mi", "ephemeral-storage": f"{disk_mib}Mi"}
    if cpu is not None:
        limits["cpu"] = str(cpu)
    return {
        "requests": {"cpu": "20m", "memory": f"{min(memory_mib, 32)}Mi", "ephemeral-storage": "1Mi"},
        "limits": limits,
    }


def _confined() -> Object:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _deadline(spec: RunSpec) -> int:
    most = spec.limits.seconds or spec.limits.lifetime_seconds or 30 * 24 * 3600.0
    return math.ceil(most) + _SPARE_SECONDS


def _first_user(name: str) -> int:
    """A user whom other pods of a node hardly share: limits of processes are counted by users."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    return _FIRST_USER + number % _USERS * _USERS_OF_POD


def _machine() -> str:
    return _MACHINES.get(platform.machine(), platform.machine())


def check_spec(spec: RunSpec) -> None:
    """Invalid, with the field, where a pod can't be made of the spec."""
    wrong: list[FieldError] = []
    if not spec.command or any("\0" in part for part in spec.command):
        wrong.append(FieldError("command", "it must name a program, without NUL characters"))
    for name, value in spec.env.items():
        if not name or "=" in name or "\0" in name + value:
            wrong.append(FieldError(f"env.{name}", "a name has no '=', and neither has a NUL character"))
    for mount in spec.mounts:
        if is_brought(mount) and not mount.source.exists():
            wrong.append(FieldError("mounts", f"{mount.source} does not exist"))
        place = mount.target.rstrip("/")
        if place in _SYSTEM or (place in _OURS and not spec.image):
            wrong.append(FieldError("mounts", f"{mount.target} is the image's own"))
    if len({mount.target for mount in spec.mounts}) < len(spec.mounts):
        wrong.append(FieldError("mounts", "two files of one directory can't be shown in a pod; name the directory"))
    if spec.root is not None and not spec.image:
        problem = "a cluster fetches images by name: register it as registry.example/name:tag, not as a file"
        wrong.append(FieldError("image", problem))
    if wrong:
        raise Invalid(f"{spec.name} can't be run: {wrong[0].message}.", fields=wrong)
