"""Owns connecting: resolve once, check every address, connect to exactly what was checked."""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import httpcore

from holdfast.core.errors import FieldError, Invalid
from holdfast.engines.fetch.network.addresses import Exceptions

_MAX_TRIED = 4


class Blocked(Invalid):
    """The place exists or not; either way it is not for reading through us. One text for every cause."""

    code = "blocked_address"

    def __init__(self, host: str, why: str) -> None:
        problem = f"{host} is not on the public internet ({why}); the operator can allow it with HOLDFAST_FETCH_ALLOW"
        super().__init__(f"This address may not be fetched: {problem}.", fields=[FieldError("url", problem)])


class Resolver(Protocol):
    """Turns a host name into addresses."""

    async def resolve(self, host: str, port: int) -> list[str]:
        """All addresses in the order in which to try them; OSError when there are none."""
        ...


class SystemResolver:
    """The machine's own resolver, in threads of its own: a name server that never answers must not hold up others."""

    def __init__(self, threads: int = 8) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="resolve")

    async def resolve(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _look_up, host, port)
        return list(dict.fromkeys(found))


def _look_up(host: str, port: int) -> list[str]:
    return [
        str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    ]


class PinnedBackend(httpcore.AsyncNetworkBackend):
    """httpcore's way to sockets, narrowed: a host is resolved here and nowhere else."""

    def __init__(self, resolver: Resolver, exceptions: Exceptions) -> None:
        self._resolver = resolver
        self._exceptions = exceptions
        self._sockets = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await self.checked(host, port)
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in addresses[:_MAX_TRIED]:
            try:
                return await self._connect(address, port, timeout)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        raise Blocked("a local socket", "not a network address")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def checked(self, host: str, port: int) -> list[str]:
        """The addresses that a host has now, each of them one that may be reached; Blocked where one is not."""
        try:
            addresses = [str(ipaddress.ip_address(host))]
        except ValueError:
            try:
                addresses = await self._resolver.resolve(host, port)
            except OSError as error:
                raise httpcore.ConnectError(f"{host} could not be resolved") from error
        # One bad address refuses the host: an answer that mixes public and private ones is an attack or a mistake.
        why = self._exceptions.refusal(host, port, addresses)
        if why is not None:
            raise Blocked(host, why)
        return addresses

    async def _connect(self, address: str, port: int, timeout: float | None) -> httpcore.AsyncNetworkStream:
        stream = await self._sockets.connect_tcp(address, port, timeout=timeout)
        peer = stream.get_extra_info("server_addr")
        if ipaddress.ip_address(peer[0]) != ipaddress.ip_address(address):
            await stream.aclose()
            raise Blocked(address, "the connection went elsewhere")
        return stream
