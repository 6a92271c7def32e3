"""Owns values of secrets that a cluster keeps: an object for each, never changed, in the workspace's namespace."""

import base64
import binascii
import secrets as random
from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.core.errors import Unavailable
from holdfast.core.settings import Settings
from holdfast.engines.runtime.kubernetes.cluster.api import ApiProblem, ClusterApi, Object
from holdfast.engines.runtime.kubernetes.cluster.config import cluster_config
from holdfast.engines.runtime.kubernetes.names import KIND, MANAGED
from holdfast.engines.runtime.kubernetes.namespaces import Namespaces

_TRIES = 3


class NotKept(Unavailable):
    """The cluster refused what has to do with a kept value; the message says why. Nothing was changed."""

    code = "secrets_cluster"


@dataclass(frozen=True, slots=True)
class KeptValue:
    """A value as the cluster has it now."""

    value: str = field(repr=False)
    uid: str
    is_fixed: bool
    """Whether the cluster lets nobody change it."""


class KeptSecrets:
    """The values in one cluster. A reference to one is `namespace/name`."""

    def __init__(self, cluster: Callable[[], tuple[ClusterApi, Namespaces]]) -> None:
        """`cluster` is asked when the first value is needed: most commands need none."""
        self._make = cluster
        self._found: tuple[ClusterApi, Namespaces] | None = None

    def place(self, workspace_id: str) -> str:
        """Where a new value of the workspace would be kept; another one each time."""
        return f"{self._cluster()[1].name(workspace_id)}/holdfast-secret-{random.token_hex(10)}"

    async def put(self, workspace_id: str, ref: str, name: str, value: str) -> str:
        """Keep a value at its place; the object's uid."""
        api, namespaces = self._cluster()
        namespace, _, object_name = ref.partition("/")
        made: Object = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": object_name, "labels": {**MANAGED, KIND: "secret"}},
            "type": "Opaque",
            "immutable": True,
            "data": {name: base64.b64encode(value.encode()).decode()},
        }
        for attempt in range(1, _TRIES + 1):
            try:
                await namespaces.ready(workspace_id)
                answer = await api.request("POST", f"/api/v1/namespaces/{namespace}/secrets", made)
                return str(answer["metadata"]["uid"])
            except ApiProblem as problem:
                if attempt == _TRIES or problem.status_code not in (404, 409):
                    raise NotKept(f"The secret was not kept in the cluster. {problem.message}") from None
                if problem.status_code == 404:
                    namespaces.forget(workspace_id)
                else:
                    # Its place is nobody else's: an earlier try of ours arrived, and its answer did not.
                    await self.delete(ref)
        raise AssertionError("unreachable")

    async def get(self, ref: str, name: str) -> KeptValue | None:
        """The value; None where the cluster has none there."""
        try:
            found = await self._cluster()[0].request("GET", _path(ref))
        except ApiProblem as problem:
            if problem.status_code == 404:
                return None
            raise NotKept(f"The secret {name} was not read from the cluster. {problem.message}") from None
        try:
            value = base64.b64decode((found.get("data") or {})[name], validate=True).decode()
        except (KeyError, TypeError, binascii.Error, UnicodeDecodeError):
            return None
        return KeptValue(value, str(found["metadata"]["uid"]), found.get("immutable") is True)

    async def delete(self, ref: str) -> None:
        """Forget a value; it may be gone."""
        try:
            await self._cluster()[0].request("DELETE", _path(ref))
        except ApiProblem as problem:
            if problem.status_code != 404:
                raise NotKept(f"A secret was not deleted from the cluster. {problem.message}") from None

    async def close(self) -> None:
        """Close every connection."""
        if self._found is not None:
            await self._found[0].close()

    def _cluster(self) -> tuple[ClusterApi, Namespaces]:
        if self._found is None:
            self._found = self._make()
        return self._found


def kept_secrets(settings: Settings) -> KeptSecrets:
    """The values in the cluster of these settings."""

    def cluster() -> tuple[ClusterApi, Namespaces]:
        api = ClusterApi(cluster_config(settings.kubernetes_config))
        return api, Namespaces(api, settings.kubernetes_namespace, one=settings.kubernetes_namespaces == "one")

    return KeptSecrets(cluster)


def _path(ref: str) -> str:
    namespace, _, name = ref.partition("/")
    return f"/api/v1/namespaces/{namespace}/secrets/{name}"
