"""Owns the namespaces that pods live in: one for each workspace, made when first used, closed to the network."""

import asyncio

from holdfast.engines.runtime.kubernetes.api import ApiProblem, ClusterApi, Object
from holdfast.engines.runtime.kubernetes.names import LABEL, MANAGED, name_of
from holdfast.engines.runtime.kubernetes.pods import ACCOUNT

_RESTRICTED = {f"pod-security.kubernetes.io/{each}": "restricted" for each in ("enforce", "audit", "warn")}


class Namespaces:
    """The namespaces of workspaces."""

    def __init__(self, api: ClusterApi, prefix: str, *, one: bool) -> None:
        """`one` where an operator made the namespace of that name, and all pods are in it."""
        self._api = api
        self._prefix = prefix
        self._one = one
        self._ready: dict[str, asyncio.Task[None]] = {}

    def name(self, tenant: str | None) -> str:
        """The namespace of a workspace."""
        if self._one or tenant is None:
            return self._prefix
        return name_of(f"{self._prefix}-{tenant}")

    async def ready(self, tenant: str | None) -> str:
        """The same, once it is there and closed."""
        name = self.name(tenant)
        if name not in self._ready:
            self._ready[name] = asyncio.create_task(self._make(name))
        try:
            await asyncio.shield(self._ready[name])
        except BaseException:
            self._ready.pop(name, None)
            raise
        return name

    def forget(self, tenant: str | None) -> None:
        """It turned out not to be there: it is made again when it is needed next."""
        self._ready.pop(self.name(tenant), None)

    async def _make(self, name: str) -> None:
        if not self._one:
            about = {"name": name, "labels": {**MANAGED, **_RESTRICTED}}
            await self._have("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": about})
        path = f"/api/v1/namespaces/{name}/serviceaccounts"
        await self._have(path, account())
        await self._have(f"/apis/networking.k8s.io/v1/namespaces/{name}/networkpolicies", closed())

    async def _have(self, path: str, wanted: Object) -> None:
        try:
            await self._api.request("POST", path, wanted)
        except ApiProblem as problem:
            if problem.reason != "AlreadyExists":
                raise


def account() -> Object:
    """As whom pods run: nobody, who may do nothing."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "labels": dict(MANAGED)},
        "automountServiceAccountToken": False,
    }


def closed() -> Object:
    """No way in or out of any pod of ours. What a server may reach, its proxy leads to, by name, outside of the pod."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "holdfast-closed", "labels": dict(MANAGED)},
        "spec": {
            "podSelector": {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]},
            "policyTypes": ["Ingress", "Egress"],
        },
    }
