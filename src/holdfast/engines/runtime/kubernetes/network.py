"""Owns finding out whether a cluster's network holds pods to their policy, which leads nowhere."""

import asyncio
import logging
import socket

from holdfast.core.errors import HoldfastError
from holdfast.engines.runtime.kubernetes.cluster.api import ClusterApi
from holdfast.engines.runtime.kubernetes.names import IMAGE_PLACE, PYTHON

_SECONDS = 20.0

_log = logging.getLogger(__name__)


class NetworkProbe:
    """Has one pod try to reach the API server, where packets of pods go if they go anywhere."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._is_asked = False

    async def look(self, namespace: str, pod: str) -> None:
        """Log, once in a process, that a pod has a network; one that ends too soon leaves it to the next."""
        if self._is_asked:
            return
        self._is_asked = True
        try:
            said = await self.open_network(namespace, pod)
        except HoldfastError as problem:
            self._is_asked = False
            _log.debug("the network of pod %s could not be looked at: %s", pod, problem.message)
        else:
            if said is not None:
                _log.warning(said)

    async def open_network(self, namespace: str, pod: str) -> str | None:
        """One sentence where the pod reaches what no policy allows; None where it does not."""
        host, port = self._api.address
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError:
            return None
        address = str(found[0][4][0])
        command = (PYTHON, "-I", "-S", "-B", f"{IMAGE_PLACE}/reach.py", address, str(port))
        stream = await self._api.exec(namespace, pod, "sidecar", command)
        said = b""
        try:
            async with asyncio.timeout(_SECONDS):
                while not said.endswith(b"\n") and (piece := await stream.read()):
                    said += piece
        except TimeoutError:
            return None
        finally:
            await stream.close()
        if said.strip() != b"reached":
            return None
        return (
            f"The cluster does not enforce NetworkPolicies: a pod reached {address}:{port}, and its policy leads "
            "nowhere. Agents and MCP servers have whatever network the cluster gives them; use a network plugin that "
            "enforces policies."
        )
