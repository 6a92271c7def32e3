"""Owns what a secret looks like from outside: its name and its history, never its value."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.core.credential import Place
from holdfast.core.errors import Conflict, FieldError, Invalid, NotFound
from holdfast.engines.runtime.base import KeptAt
from holdfast.features.secrets.hosts import covers

NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret's metadata. A cleared secret keeps its name, so that whoever refers to it can be told."""

    id: str
    workspace_id: str
    name: str
    is_set: bool
    created_at: int
    updated_at: int
    updated_by: str
    hosts: tuple[str, ...] = ()
    """Where it may go, as `host` or `host:port`; empty until an admin uses it first."""
    is_sealed: bool = False
    """Whether the database has its value."""
    k8s_secret_ref: str | None = None
    """Where a cluster has its value, as `namespace/name`."""
    k8s_secret_uid: str | None = None
    """Which object there is the one that we made."""

    @property
    def bound_to(self) -> str:
        """What its sealed value opens with: copied to another row, workspace or name it does not."""
        return f"{self.id} {self.workspace_id} {self.name}"


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A value for a program."""

    value: str = field(repr=False)
    kept: KeptAt | None = None
    """Where a cluster has this very value, if it was read there."""


class SecretNotFound(NotFound):
    """No secret of this name in the workspace."""

    def __init__(self, name: str) -> None:
        super().__init__("secret", name[:80])


class SecretNotSet(Conflict):
    """Something refers to a secret that has no value now."""

    code = "secret_not_set"

    def __init__(self, name: str) -> None:
        super().__init__(f"The secret {name} has no value; set it with `holdfast secrets set {name}`.")


class SecretGone(Conflict):
    """The cluster no longer has what it was given."""

    code = "secret_not_set"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The cluster has the value of the secret {name} no more; set it again: `holdfast secrets set {name}`."
        )


class SecretKept(Conflict):
    """Something would send a secret where it may not go. Nothing was sent."""

    code = "secret_kept"


def why_kept(name: str, hosts: Sequence[str], place: Place) -> str | None:
    """Why a secret may not go to a place, and the remedy; None when it may."""
    if place.is_overheard:
        return f"a secret goes over plain http only to this machine itself; use https:// for {place.name}"
    if covers(hosts, place):
        return None
    bound = f"is bound to {', '.join(hosts)}" if hosts else "is bound to no host yet"
    return (
        f"the secret {name} {bound} and does not go to {place.name}; an admin who has its value can set it again with "
        f"that host: `holdfast secrets set {name} --host {place.name}`"
    )


def checked_name(name: str) -> str:
    """The name, if it is one: capitals, digits and underscores."""
    if NAME.fullmatch(name) is None:
        problem = "use capitals, digits and underscores, not beginning with a digit, at most 64: LINEAR_API_KEY"
        raise Invalid("The secret's name cannot be used.", fields=[FieldError("name", problem)])
    return name


def checked_value(value: str) -> str:
    """The value, if an environment variable can hold it."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        size = 0
    if not 1 <= size <= MAX_BYTES or "\0" in value:
        problem = f"write 1 to {MAX_BYTES} bytes of text without NUL"
        raise Invalid("The secret's value cannot be used.", fields=[FieldError("value", problem)])
    return value
