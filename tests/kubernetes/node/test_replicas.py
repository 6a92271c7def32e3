"""Owns the proof that three replicas of our image, started by our manifests, are one server on PostgreSQL."""

import http.client
import itertools
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.test_manifests import MANIFESTS, built, containers
from tests.kubernetes.node.conftest import PATIENCE_SECONDS, SETTINGS, kubectl
from tests.support.stores.postgres import PrivatePostgres

IMAGE = "localhost/holdfast/holdfast:test"
NODE = "10.231.0.1"
HOST = "holdfast.example.com"
IMAGES = os.environ.get("NODE_IMAGES")
pytestmark = [
    pytest.mark.timeout(2_400),
    pytest.mark.skipif(IMAGES is None, reason="no image was built (mmdebstrap is missing)"),
]


@dataclass
class Replicas:
    """The running replicas, as a balancer before them sees them."""

    postgres: PrivatePostgres
    key: str = field(default="", repr=False)
    project: str = ""
    workspace: str = ""

    def addresses(self) -> list[str]:
        """Those that are ready."""
        found = json.loads(kubectl("-n", "holdfast", "get", "endpoints", "holdfast", "-o", "json"))
        return [each["ip"] for subset in found.get("subsets", ()) for each in subset.get("addresses", ())]

    def request(
        self, address: str, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection(address, 8787, timeout=60)
        try:
            sent = {"Host": HOST, "Authorization": f"Bearer {self.key}", "Content-Type": "application/json", **headers}
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def saved(self) -> set[str]:
        """The contents of every memory."""
        found: set[str] = set()
        cursor = ""
        while True:
            path = f"/api/workspaces/{self.workspace}/memories?limit=200{cursor}"
            status, _, body = self.request(self.addresses()[0], "GET", path)
            assert status == 200, body
            page = json.loads(body)
            found |= {each["content"] for each in page["items"]}
            if not page.get("next_cursor"):
                return found
            cursor = f"&cursor={page['next_cursor']}"

    def in_pod(self, *words: str) -> Any:
        """What a command says in one of the pods."""
        done = kubectl(
            "-n", "holdfast", "exec", "deploy/holdfast", "-c", "holdfast", "--", "holdfast", *words, "--json"
        )
        return json.loads(done)


def manifests() -> list[dict[str, Any]]:
    """Ours, for this node: images that it has, an API server that pods reach without a service network."""
    made = built(MANIFESTS / "overlays/one-namespace")
    for one in made:
        for container in containers(one):
            container["image"] = IMAGE
            container["resources"]["requests"] = {"cpu": "20m", "memory": "64Mi"}
        if one["kind"] == "ConfigMap":
            one["data"] |= {
                "HOLDFAST_KUBERNETES_IMAGE": SETTINGS["kubernetes_image"],
                "HOLDFAST_KUBERNETES_SERVER_IMAGE": SETTINGS["kubernetes_server_image"],
                "HOLDFAST_KUBERNETES_PULL": "Never",
                "HOLDFAST_REQUEST_TIMEOUT_SECONDS": "60",
                "KUBERNETES_SERVICE_HOST": NODE,
                "KUBERNETES_SERVICE_PORT": "16443",
            }
    # This node's API server is older than the group's newest version.
    return [one for one in made if one["kind"] != "PodDisruptionBudget"]


def apply(objects: list[dict[str, Any]]) -> None:
    subprocess.run(
        ["kubectl", "apply", "-f", "-"], input=yaml.safe_dump_all(objects), text=True, check=True, timeout=60
    )


@pytest.fixture(scope="module")
def replicas() -> Iterator[Replicas]:
    assert IMAGES is not None
    layout = subprocess.Popen(["tar", "-C", str(Path(IMAGES, "holdfast")), "-cf", "-", "."], stdout=subprocess.PIPE)
    ctr = ["ctr", "-a", "/run/holdfast-node/containerd.sock", "-n", "k8s.io", "images"]
    subprocess.run([*ctr, "import", "--base-name", IMAGE.partition(":")[0], "-"], stdin=layout.stdout, check=True)
    subprocess.run([*ctr, "tag", f"{IMAGE.partition(':')[0]}:latest", IMAGE], check=True)
    postgres = PrivatePostgres(listen=NODE)
    try:
        url = f"postgresql://postgres@{NODE}/{postgres.create()}"
        objects = manifests()
        apply([one for one in objects if one["kind"] == "Namespace"])
        literals = (
            f"--from-literal=HOLDFAST_DATABASE_URL={url}",
            f"--from-literal=WORKSPACE_SECRETS_MASTER_KEY={'ab' * 32}",
        )
        kubectl("-n", "holdfast", "create", "secret", "generic", "holdfast", *literals)
        apply(objects)
        rolled_out()
        made = Replicas(postgres)
        (workspace,) = made.in_pod("workspaces", "list")
        made.workspace, made.project = workspace["id"], workspace["project_id"]
        made.key = made.in_pod("keys", "create", "balancer", "--scopes", "inference,read")["key"]
        yield made
    finally:
        with suppress(AssertionError):
            print(kubectl("-n", "holdfast", "get", "pods", "-o", "wide"))
            print(kubectl("-n", "holdfast", "logs", "-l", "app.kubernetes.io/component=server", "--tail", "20"))
        subprocess.run(["kubectl", "delete", "namespace", "holdfast", "holdfast-sessions", "--wait=false"], check=False)
        postgres.stop()


def rolled_out() -> None:
    done = subprocess.run(
        ["kubectl", "-n", "holdfast", "rollout", "status", "deployment/holdfast", "--timeout", "900s"],
        capture_output=True,
        text=True,
    )
    described = subprocess.run(["kubectl", "-n", "holdfast", "describe", "pods"], capture_output=True, text=True).stdout
    assert done.returncode == 0, done.stdout + done.stderr + described[-6000:]


@contextmanager
def load(replicas: Replicas, told: list[str], failed: list[str]) -> Iterator[None]:
    """Four callers who save and read without a pause, each time at another replica that is ready."""
    ready = [replicas.addresses()]
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.3):
            with suppress(AssertionError):
                ready[0] = replicas.addresses() or ready[0]

    def call(name: int) -> None:
        for number in itertools.count():
            if over.is_set():
                return
            address = ready[0][number % len(ready[0])]
            content = f"Berth {name} of the harbour was painted for the time {number}."
            path = f"/api/workspaces/{replicas.workspace}/memories"
            try:
                status, _, body = replicas.request(address, "POST", path, {"content": content})
            except OSError as problem:
                failed.append(f"{address}: {problem!r}")
                continue
            if status in (200, 201):
                told.append(content)
            else:
                failed.append(f"{address}: {status} {body[:200]!r}")

    threads = [threading.Thread(target=look), *(threading.Thread(target=call, args=(n,)) for n in range(4))]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def until(happens: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_one_session_is_served_by_every_replica(replicas: Replicas) -> None:
    addresses = replicas.addresses()
    assert len(addresses) == 3
    path = f"/{replicas.project}/v1/mcp"
    accepts = {"Accept": "application/json, text/event-stream", "X-Xerotier-Workspace": replicas.workspace}
    asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "balancer", "version": "1"}}
    begun = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked}
    status, headers, body = replicas.request(addresses[0], "POST", path, begun, **accepts)
    assert status == 200, body
    session = {**accepts, "Mcp-Session-Id": headers["mcp-session-id"], "MCP-Protocol-Version": "2025-06-18"}
    for number, address in enumerate(addresses):
        arguments = {"expression": f"40 + {number}"}
        call = {"name": "xerotier.calc.evaluate", "arguments": arguments}
        sent: dict[str, Any] = {"jsonrpc": "2.0", "id": number + 2, "method": "tools/call", "params": call}
        status, _, body = replicas.request(address, "POST", path, sent, **session)
        assert status == 200 and f"{40 + number}".encode() in body, (address, status, body)


def test_a_session_of_a_replica_is_a_pod_with_the_rights_of_our_role(replicas: Replicas) -> None:
    command = ("-n", "holdfast", "exec", "deploy/holdfast", "-c", "holdfast", "--", "holdfast")
    replicas.in_pod("agents", "add", "helper")
    told = kubectl(*command, "sessions", "run", "helper", "What do we know?", "--follow")
    (session,) = replicas.in_pod("sessions", "list")
    assert session["state"] == "completed", (session, told)
    made = json.loads(kubectl("-n", "holdfast-sessions", "get", "serviceaccounts,networkpolicies", "-o", "json"))
    assert {"holdfast-session", "holdfast-closed"} <= {each["metadata"]["name"] for each in made["items"]}


def test_a_rolling_update_fails_no_request(replicas: Replicas) -> None:
    told: list[str] = []
    failed: list[str] = []
    before = set(replicas.addresses())
    with load(replicas, told, failed):
        until(lambda: len(told) > 20)
        kubectl("-n", "holdfast", "rollout", "restart", "deployment/holdfast")
        rolled_out()
        until(lambda: not before & set(replicas.addresses()))
        count = len(told)
        until(lambda: len(told) > count + 20)
    assert not failed, failed[:5]
    assert set(told) <= replicas.saved()


def test_a_killed_replica_and_a_killed_database_lose_nothing_that_was_told(replicas: Replicas) -> None:
    told: list[str] = []
    failed: list[str] = []
    with load(replicas, told, failed):
        until(lambda: len(told) > 10)
        pods = json.loads(
            kubectl("-n", "holdfast", "get", "pods", "-l", "app.kubernetes.io/component=server", "-o", "json")
        )
        name = pods["items"][0]["metadata"]["name"]
        kubectl("-n", "holdfast", "delete", "pod", name, "--force", "--grace-period=0")
        rolled_out()
        replicas.postgres.kill()
        replicas.postgres.start_again()
        count = len(told)
        until(lambda: len(told) > count + 20)
    assert set(told) <= replicas.saved()


def test_replicas_put_neither_keys_nor_links_into_their_logs(replicas: Replicas) -> None:
    logs = kubectl("-n", "holdfast", "logs", "-l", "app.kubernetes.io/name=holdfast", "--tail", "-1")
    assert "xero_" not in logs and "sign-in?link=" not in logs
