"""Owns how values of secrets get into pods: as objects of the cluster that pods refer to, never in a pod's own words."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from holdfast.engines.runtime.kubernetes.api import ApiProblem, ClusterApi, Object
from holdfast.engines.runtime.kubernetes.names import LABEL, MANAGED


@dataclass(frozen=True, slots=True)
class SecretKey:
    """One value in a `Secret`."""

    name: str
    key: str

    @property
    def source(self) -> Object:
        """For an environment variable of a pod."""
        return {"secretKeyRef": {"name": self.name, "key": self.key}}


class PodSecrets(Protocol):
    """Puts the values that one pod needs where it can refer to them."""

    async def put(self, namespace: str, pod: str, values: Mapping[str, str]) -> Mapping[str, SecretKey]:
        """Where each value is found, by the names that they came with."""
        ...

    async def own(self, namespace: str, pod: str, uid: str) -> None:
        """The pod is there now: what was put for it goes when it goes."""
        ...

    async def drop(self, namespace: str, pod: str) -> None:
        """The pod was never made, or is gone."""
        ...


class SecretOfPod:
    """A `Secret` for each pod, which belongs to it and is deleted with it."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api

    async def put(self, namespace: str, pod: str, values: Mapping[str, str]) -> Mapping[str, SecretKey]:
        """Where each value is found."""
        name = f"{pod}-env"
        secret: Object = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "labels": {**MANAGED, LABEL: pod}},
            "type": "Opaque",
            "immutable": True,
            "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
        }
        path = f"/api/v1/namespaces/{namespace}/secrets"
        try:
            await self._api.request("POST", path, secret)
        except ApiProblem as problem:
            if problem.reason != "AlreadyExists":
                raise
            # Of an earlier pod of this name, whose end was not seen.
            await self.drop(namespace, pod)
            await self._api.request("POST", path, secret)
        return {key: SecretKey(name, key) for key in values}

    async def own(self, namespace: str, pod: str, uid: str) -> None:
        """Let the cluster delete it with the pod."""
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
        path = f"/api/v1/namespaces/{namespace}/secrets/{pod}-env"
        await self._api.request("PATCH", path, {"metadata": {"ownerReferences": [owner]}})

    async def drop(self, namespace: str, pod: str) -> None:
        """Delete it; it may be gone."""
        try:
            await self._api.request("DELETE", f"/api/v1/namespaces/{namespace}/secrets/{pod}-env")
        except ApiProblem as problem:
            if problem.status_code != 404:
                raise
