"""Owns `${NAME}`: how anything that takes an environment refers to a secret, checked when saved and read at a start."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from holdfast.core.credential import Place
from holdfast.core.errors import Conflict, FieldError, Invalid
from holdfast.core.principal import Principal
from holdfast.engines.runtime.base import KeptAt
from holdfast.features.secrets.service import Secrets
from holdfast.storage.database import Tx

_BARE = re.compile(r"\$\{([A-Z_][A-Z0-9_]{0,63})\}")
_ANYWHERE = re.compile(r"\$\{[^}]*\}")
REMEDY = "write ${NAME} alone: a secret is never part of a longer value"


@dataclass(frozen=True, slots=True)
class Resolved:
    """An environment with every reference replaced."""

    values: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    kept: dict[str, KeptAt] = field(default_factory=dict[str, KeptAt])
    """Where a cluster has those that it keeps."""


class ReferenceBroken(Conflict):
    """What is about to start refers to a secret that it cannot have now; nothing was started."""

    code = "secret_not_set"


def referred(value: str) -> str | None:
    """The secret that a value refers to; None where it is a plain value."""
    found = _BARE.fullmatch(value)
    return found[1] if found else None


def is_mixed(value: str) -> bool:
    """Whether a value has a reference that does not stand alone."""
    return referred(value) is None and _ANYWHERE.search(value) is not None


class References:
    """The one resolver of `${NAME}`, whatever the values are for: MCP servers, their headers, agents."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    def check(
        self,
        tx: Tx,
        principal: Principal,
        workspace_id: str,
        values: Mapping[str, str],
        places: Collection[Place],
        *,
        field: str,
    ) -> list[FieldError]:
        """What is wrong with the references in values, by field; right ones are bound to the places from now on."""
        wrong: list[FieldError] = []
        for name, value in values.items():
            where = f"{field}.{name}"
            secret = referred(value)
            if is_mixed(value):
                wrong.append(FieldError(where, REMEDY))
            elif secret is not None:
                try:
                    self._secrets.use(tx, principal, workspace_id, secret, places, field=where)
                except Invalid as problem:
                    wrong += problem.fields
        return wrong

    def resolve(
        self, tx: Tx, workspace_id: str, values: Mapping[str, str], places: Collection[Place], *, field: str
    ) -> Resolved:
        """The values with every reference replaced; ReferenceBroken names each that cannot be."""
        resolved = Resolved()
        wrong: list[FieldError] = []
        for name, value in values.items():
            secret = referred(value)
            if secret is None:
                resolved.values[name] = value
                continue
            try:
                handed = self._secrets.hand_over(tx, workspace_id, secret, places)
            except Conflict as problem:
                wrong.append(FieldError(f"{field}.{name}", problem.message))
                continue
            resolved.values[name] = handed.value
            if handed.kept is not None:
                resolved.kept[name] = handed.kept
        if wrong:
            told = "; ".join(f"{each.field}: {each.message}" for each in wrong)
            raise ReferenceBroken(f"It was not started. {told}", fields=wrong)
        return resolved
