"""Owns an API server that keeps objects, streams their changes, and runs containers as sandboxes of this machine."""

import asyncio
import base64
import datetime
import ipaddress
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml
from aiohttp import WSMsgType, web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.fakes.kubernetes.kubelet import FakePod
from tests.fakes.kubernetes.semantics import wrong_with

TOKEN = "the-fake-clusters-token"
Object = dict[str, Any]
_KINDS = {"pods": "Pod", "secrets": "Secret", "serviceaccounts": "ServiceAccount", "networkpolicies": "NetworkPolicy"}


@dataclass
class FakeCluster:
    """One of them; what it was asked is counted."""

    minor: str = "37"
    asked: Counter[str] = field(default_factory=Counter[str])
    objects: dict[tuple[str, str, str], Object] = field(default_factory=dict[tuple[str, str, str], Object])
    refuse: Callable[[str, str], tuple[int, str, str] | None] = lambda method, path: None
    """What a test has it refuse: status, reason, message."""
    status_of: Callable[[Object], Object] | None = None
    """What a test has the kubelet say of a pod instead of running it."""
    oldest: int = 0
    """From which version on changes are kept; a watch from before gets 410."""
    enforces_policies: bool = True
    looked: int = 0
    """How often a pod was made to try what its policy does not allow."""
    kubeconfig: str = ""

    def __post_init__(self) -> None:
        self._version = 100
        self._events: list[tuple[int, str, Object]] = []
        self._changed = asyncio.Condition()
        self._pods: dict[tuple[str, str], FakePod] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams: set[web.StreamResponse] = set()

    @property
    def pods(self) -> list[Object]:
        return [each for (kind, _, _), each in self.objects.items() if kind == "pods"]

    async def drop_streams(self, *, killed: bool = False) -> None:
        """Break every watch and exec off, as a restart would, or kill -9."""
        for each in list(self._streams):
            transport = each._req.transport if each._req is not None else None
            if killed and transport is not None:
                transport.abort()
            elif isinstance(each, web.WebSocketResponse):
                await each.close()
            elif transport is not None:
                transport.close()

    async def set_status(self, namespace: str, name: str, status: Object) -> None:
        """What the kubelet says of a pod from now on."""
        pod = self.objects[("pods", namespace, name)]
        await self._put("pods", {**pod, "status": status}, "MODIFIED")

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _failure(401, "Unauthorized", "Unauthorized")
        path, method = request.path, request.method
        refused = self.refuse(method, path)
        if refused is not None:
            return _failure(*refused)
        self.asked[f"{method} {path.rsplit('/', 1)[-1] if path.endswith('/exec') else path}"] += 1
        if path == "/version":
            return web.json_response({"major": "1", "minor": self.minor})
        parts = path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        if parts[0] == "namespaces" and len(parts) <= 2:
            return await self._namespaces(request, parts[1:])
        if parts[0] == "namespaces":
            namespace, kind, *rest = parts[1:]
        else:
            namespace, kind, rest = "", parts[0], []
        if kind not in _KINDS:
            return _failure(404, "NotFound", "the server could not find the requested resource")
        if rest[1:] == ["exec"]:
            return await self._exec(request, namespace, rest[0])
        return await self._resource(request, kind, namespace, rest[0] if rest else None)

    async def _namespaces(self, request: web.Request, rest: list[str]) -> web.StreamResponse:
        if request.method != "POST" or rest:
            return _failure(405, "MethodNotAllowed", "not served here")
        made = await request.json()
        problem = _invalid(made)
        if problem:
            return _failure(422, "Invalid", problem)
        if ("namespaces", "", made["metadata"]["name"]) in self.objects:
            return _failure(409, "AlreadyExists", f"namespaces {made['metadata']['name']} already exists")
        await self._put("namespaces", {**made, "metadata": {**made["metadata"], "namespace": ""}}, "ADDED")
        return web.json_response(made, status=201)

    async def _resource(self, request: web.Request, kind: str, namespace: str, name: str | None) -> web.StreamResponse:
        found = self.objects.get((kind, namespace, name or ""))
        if request.method == "POST" and name is None:
            return await self._create(request, kind, namespace)
        if request.method == "GET" and name is None:
            return await self._list(request, kind, namespace)
        if found is None:
            return _failure(404, "NotFound", f'{kind} "{name}" not found')
        if request.method == "GET":
            return web.json_response(found)
        if request.method == "PATCH":
            if request.content_type != "application/merge-patch+json":
                return _failure(415, "UnsupportedMediaType", request.content_type)
            change = await request.json()
            about = {**found["metadata"], **change.get("metadata", {})}
            return web.json_response(await self._put(kind, {**found, **change, "metadata": about}, "MODIFIED"))
        if request.method == "DELETE":
            only = (await request.json()).get("preconditions", {}).get("uid") if request.can_read_body else None
            if only not in (None, found["metadata"]["uid"]):
                return _failure(409, "Conflict", "the UID in the precondition does not match the UID in record")
            await self._delete(kind, namespace, str(name))
            return web.json_response({"kind": "Status", "status": "Success"})
        return _failure(405, "MethodNotAllowed", request.method)

    async def _create(self, request: web.Request, kind: str, namespace: str) -> web.StreamResponse:
        made = await request.json()
        if request.content_type != "application/json" or made.get("kind") != _KINDS[kind]:
            return _failure(400, "BadRequest", "the object is of another kind")
        if ("namespaces", "", namespace) not in self.objects:
            return _failure(404, "NotFound", f'namespaces "{namespace}" not found')
        problem = _invalid(made)
        if problem:
            return _failure(422, "Invalid", problem)
        name = made["metadata"]["name"]
        if (kind, namespace, name) in self.objects:
            return _failure(409, "AlreadyExists", f'{kind} "{name}" already exists')
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        about = {**made["metadata"], "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": now}
        kept = await self._put(kind, {**made, "metadata": about}, "ADDED")
        if kind == "pods":
            self._later(self._start(namespace, name))
        return web.json_response(kept, status=201)

    async def _list(self, request: web.Request, kind: str, namespace: str) -> web.StreamResponse:
        if request.query.get("labelSelector") != "app.kubernetes.io/managed-by=holdfast,holdfast.dev/run":
            return _failure(400, "BadRequest", "this would list what is not ours")
        if request.query.get("watch"):
            return await self._watch(request, kind, namespace)
        items = [each for key, each in self.objects.items() if key[0] == kind and namespace in ("", key[1])]
        return web.json_response({"items": items, "metadata": {"resourceVersion": str(self._version)}})

    async def _watch(self, request: web.Request, kind: str, namespace: str) -> web.StreamResponse:
        after = int(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self._streams.add(response)
        try:
            if after < self.oldest:
                gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
                await response.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
                return response
            while True:
                for version, change, each in self._events:
                    if (
                        version > after
                        and each["kind"] == _KINDS[kind]
                        and namespace in ("", each["metadata"]["namespace"])
                    ):
                        await response.write(json.dumps({"type": change, "object": each}).encode() + b"\n")
                    after = max(after, version)
                async with self._changed:
                    await self._changed.wait_for(lambda seen=after: self._version > seen)  # type: ignore[misc]
        finally:
            self._streams.discard(response)

    async def _exec(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        if "application/json" in request.headers.get("Accept", ""):
            return _failure(406, "NotAcceptable", "only the following media types are accepted: */*")
        made, pod = self.objects.get(("pods", namespace, name)), self._pods.get((namespace, name))
        if made is None:
            return _failure(404, "NotFound", f'pods "{name}" not found')
        if not made["spec"].get("nodeName"):
            return _failure(400, "BadRequest", f"pod {name} does not have a host assigned")
        if pod is None:
            # As a kubelet says it, and an API server hands it on.
            return web.Response(status=404, text='unable to upgrade connection: container not found ("sidecar")')
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",), autoping=True)
        await socket.prepare(request)
        if socket.ws_protocol != "v4.channel.k8s.io":
            await socket.close()
            return socket
        process = await pod.exec(request.query["container"], request.query.getall("command"))
        assert process.stdin is not None and process.stdout is not None
        self.looked += any(word.endswith("/reach.py") for word in request.query.getall("command"))
        out = asyncio.create_task(_forward(process.stdout, socket))
        self._streams.add(socket)
        try:
            async for message in socket:
                assert message.type == WSMsgType.BINARY and message.data[0] == 0, message
                process.stdin.write(message.data[1:])
                await process.stdin.drain()
        except ConnectionError:
            pass
        finally:
            self._streams.discard(socket)
            process.stdin.close()
            await process.wait()
            await out
        return socket

    async def _start(self, namespace: str, name: str) -> None:
        made = self.objects[("pods", namespace, name)]
        if self.status_of is not None:
            await self.set_status(namespace, name, self.status_of(made))
            return
        await self._put("pods", {**made, "spec": {**made["spec"], "nodeName": "fake"}}, "MODIFIED")
        secrets = {key[2]: each for key, each in self.objects.items() if key[0] == "secrets" and key[1] == namespace}
        pod = self._pods[(namespace, name)] = FakePod(made, secrets, is_closed=self.enforces_policies)
        await pod.start()
        await self.set_status(namespace, name, {"phase": "Running"})

    async def _delete(self, kind: str, namespace: str, name: str) -> None:
        pod = self._pods.pop((namespace, name), None) if kind == "pods" else None
        if pod is not None:
            await pod.stop()
        gone = self.objects.pop((kind, namespace, name), None)
        if gone is not None:
            await self._tell(gone, "DELETED")
            for key, each in list(self.objects.items()):
                if any(owner["uid"] == f"uid-{name}" for owner in each["metadata"].get("ownerReferences", ())):
                    await self._delete(*key)

    async def _put(self, kind: str, made: Object, change: str) -> Object:
        self.objects[(kind, made["metadata"]["namespace"], made["metadata"]["name"])] = made
        return await self._tell(made, change)

    async def _tell(self, made: Object, change: str) -> Object:
        self._version += 1
        made["metadata"]["resourceVersion"] = str(self._version)
        self._events.append((self._version, change, json.loads(json.dumps(made))))
        async with self._changed:
            self._changed.notify_all()
        return made

    def _later(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        for pod in list(self._pods.values()):
            await pod.stop()


async def _forward(stdout: asyncio.StreamReader, socket: web.WebSocketResponse) -> None:
    with suppress(ConnectionError):
        while piece := await stdout.read(32_768):
            if socket.closed:
                return
            await socket.send_bytes(b"\x01" + piece)
        await socket.close()


def _invalid(made: Object) -> str:
    """What an API server of today refuses about an object; nothing where it is right."""
    try:
        kubernetes_validate.validate(made, "1.37", strict=True)
    except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as problem:
        return str(problem)[:500]
    return "; ".join(wrong_with(made)) if made["kind"] == "Pod" else ""


def _failure(status: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message}
    return web.json_response(body, status=status)


@asynccontextmanager
async def cluster(directory: Path, **more: Any) -> AsyncIterator[FakeCluster]:
    """A cluster on this machine's loopback, and a kubeconfig that leads to it."""
    made = FakeCluster(**more)
    certificate, key = _certificate(directory)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    app = web.Application(client_max_size=8 << 20)
    app.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    authority = base64.b64encode(certificate.read_bytes()).decode()
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": authority}}
        ],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
    }
    made.kubeconfig = str(directory / "kubeconfig")
    Path(made.kubeconfig).write_text(yaml.safe_dump(config))
    try:
        yield made
    finally:
        await made.close()
        await runner.cleanup()


def _certificate(directory: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fake")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = directory / "tls.crt", directory / "tls.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private
