"""Proves secrets whose values a cluster keeps: whole or not at all, found again, moved there and back."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import Conflict, Unavailable
from holdfast.core.principal import Principal
from holdfast.core.settings import Settings
from holdfast.engines.runtime.base import Runtime
from holdfast.engines.runtime.kubernetes.kept import KeptSecrets
from holdfast.features.identity.service import local_principal
from holdfast.features.secrets.model import SecretGone, SecretNotSet
from holdfast.features.secrets.moving import NotVerified, SecretStores, WrongStore
from holdfast.features.secrets.values import SecretValues
from holdfast.storage.database import Database
from tests.engines.runtime.kubernetes.conftest import needs_root
from tests.fakes.embedder import WordEmbedder
from tests.fakes.kubernetes.cluster import FakeCluster, cluster
from tests.support.clock import MovableClock
from tests.support.execution.counting import enrolled, in_a_place_of_its_own
from tests.support.services import Services, background, build_services, first_start

VALUE = "lin_api_0123456789abcdef-canary"
DOWN = (503, "ServiceUnavailable", "etcd has no leader")


@pytest.fixture
async def fake(tmp_path: Path) -> AsyncIterator[FakeCluster]:
    async with cluster(tmp_path) as made:
        yield made


class World:
    """Servers on one store and one cluster, each with its own setting."""

    def __init__(self, database: Database, directory: Path, fake: FakeCluster) -> None:
        self.database = database
        self.fake = fake
        self.clock = MovableClock()
        self._directory = directory
        self._made: list[Services] = []
        self.workspace_id = ""
        self.owner: Principal

    def server(self, where: str, **more: Any) -> Services:
        settings = Settings(
            data_dir=self._directory, secrets_store=where, kubernetes_config=self.fake.kubeconfig, **more
        )
        made = build_services(settings, self.database, self.clock, WordEmbedder())
        self._made.append(made)
        return made

    async def begin(self) -> "World":
        start = await first_start(self.server("database"))
        self.workspace_id, self.owner = start.workspace_id, local_principal(start.organization_id)
        return self

    async def set(self, server: Services, value: str = VALUE, name: str = "LINEAR_API_KEY") -> None:
        await server.secrets.set(self.owner, self.workspace_id, name, value)

    async def reveal(self, server: Services, name: str = "LINEAR_API_KEY") -> str:
        return await self.database.read(lambda tx: server.secrets.value_to_compare(tx, self.workspace_id, name))

    async def row(self) -> dict[str, Any]:
        return await self.database.read(lambda tx: dict(tx.one("SELECT * FROM secret") or {}))

    @property
    def objects(self) -> dict[tuple[str, str, str], dict[str, Any]]:
        return {key: each for key, each in self.fake.objects.items() if key[0] == "secrets"}

    def kept(self) -> list[str]:
        """The values in the cluster."""
        return [base64.b64decode(value).decode() for each in self.objects.values() for value in each["data"].values()]

    async def close(self) -> None:
        for each in self._made:
            await each[KeptSecrets].close()


@pytest.fixture
async def world(database: Database, tmp_path: Path, fake: FakeCluster) -> AsyncIterator[World]:
    made = await World(database, tmp_path, fake).begin()
    yield made
    await made.close()


@pytest.mark.contract("XA-3")
async def test_a_value_is_in_the_workspaces_namespace_and_the_row_refers_to_it(world: World) -> None:
    server = world.server("kubernetes")
    await world.set(server)

    row = await world.row()
    ((_, namespace, name),) = world.objects
    (secret,) = world.objects.values()
    (listed,) = await server.secrets.list(world.owner, world.workspace_id)
    assert row["k8s_secret_ref"] == f"{namespace}/{name}"
    assert namespace.startswith("holdfast-ws-")
    assert (row["key_id"], row["nonce"], row["ciphertext"]) == (None, None, None)
    assert secret["immutable"] is True
    assert list(secret["data"]) == ["LINEAR_API_KEY"]
    assert listed.is_set
    assert VALUE not in repr(listed)
    assert await world.reveal(server) == VALUE


async def test_in_both_the_clusters_value_is_read_and_the_databases_where_it_does_not_answer(world: World) -> None:
    server = world.server("both")
    await world.set(server)
    (secret,) = world.objects.values()
    assert (await world.row())["key_id"] is not None
    secret["data"]["LINEAR_API_KEY"] = base64.b64encode(b"of the cluster").decode()

    assert await world.reveal(server) == "of the cluster"
    world.fake.refuse = lambda method, path: DOWN
    assert await world.reveal(server) == VALUE


async def test_replacing_and_clearing_leave_no_value_behind(world: World) -> None:
    server = world.server("kubernetes")
    await world.set(server)
    await world.set(server, "another-value")
    assert world.kept() == ["another-value"]
    assert await world.reveal(server) == "another-value"

    await server.secrets.clear(world.owner, world.workspace_id, "LINEAR_API_KEY")

    assert world.kept() == []
    with pytest.raises(SecretNotSet):
        await world.reveal(server)
    assert await world.database.read(lambda tx: tx.all("SELECT * FROM secret_object")) == []


@pytest.mark.parametrize("where", ["both", "kubernetes"])
async def test_nothing_changes_while_the_cluster_does_not_answer(world: World, where: str) -> None:
    server = world.server(where)
    await world.set(server)
    before = await world.row()
    world.fake.refuse = lambda method, path: DOWN

    with pytest.raises(Unavailable) as refused:
        await world.set(server, "another-value")
    with pytest.raises(Unavailable):
        await server.secrets.clear(world.owner, world.workspace_id, "LINEAR_API_KEY")

    world.fake.refuse = lambda method, path: None
    assert refused.value.status == 503
    assert "etcd has no leader" in refused.value.message
    assert "another-value" not in refused.value.message
    assert await world.row() == before
    assert await world.reveal(server) == VALUE


async def test_a_value_that_only_the_cluster_has_is_not_replaced_by_silence(world: World) -> None:
    server = world.server("kubernetes")
    await world.set(server)

    world.fake.refuse = lambda method, path: DOWN
    with pytest.raises(Unavailable):
        await world.reveal(server)
    world.fake.refuse = lambda method, path: None
    world.fake.objects = {key: each for key, each in world.fake.objects.items() if key[0] != "secrets"}
    with pytest.raises(SecretGone):
        await world.reveal(server)


async def test_what_a_crash_left_in_the_cluster_is_deleted_later(world: World) -> None:
    server = world.server("kubernetes")
    await world.set(server)
    # As far as a server came that was killed before its row was written.

    (secret,) = await server.secrets.list(world.owner, world.workspace_id)
    await server[SecretValues].make(secret, "of the killed one")
    assert sorted(world.kept()) == sorted([VALUE, "of the killed one"])

    await server[SecretStores].verify(world.owner)
    assert len(world.kept()) == 2, "it may still be on its way"
    world.clock.advance(seconds=3600)
    await server[SecretStores].verify(world.owner)

    assert world.kept() == [VALUE]


async def test_a_server_deletes_what_a_crash_left_from_its_start_on(world: World) -> None:
    server = world.server("kubernetes")
    await world.set(server)
    (secret,) = await server.secrets.list(world.owner, world.workspace_id)
    await server[SecretValues].make(secret, "of the killed one")
    world.clock.advance(seconds=3600)

    async with background(world.server("kubernetes")), asyncio.timeout(20):
        while len(world.kept()) > 1:
            await asyncio.sleep(0.02)

    assert world.kept() == [VALUE]


async def test_an_old_value_that_could_not_be_deleted_is_deleted_later(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    server = world.server("kubernetes")
    await world.set(server)
    world.fake.refuse = lambda method, path: DOWN if method == "DELETE" else None

    with caplog.at_level(logging.DEBUG):
        await world.set(server, "another-value")
    assert sorted(world.kept()) == sorted([VALUE, "another-value"])
    assert await world.reveal(server) == "another-value"
    world.fake.refuse = lambda method, path: None
    await server[SecretStores].verify(world.owner)

    assert world.kept() == ["another-value"]
    assert VALUE not in caplog.text
    assert "another-value" not in caplog.text


async def test_a_conflict_is_tried_again(world: World) -> None:
    server = world.server("kubernetes")
    refused = iter([(409, "Conflict", "the object has been modified"), (409, "AlreadyExists", "it exists")])
    world.fake.refuse = lambda method, path: (
        next(refused, None) if method == "POST" and path.endswith("/secrets") else None
    )

    await world.set(server)

    assert world.kept() == [VALUE]
    assert await world.reveal(server) == VALUE


async def test_values_move_to_the_cluster_and_back(world: World) -> None:
    await world.set(world.server("database"))
    both, there = world.server("both"), world.server("kubernetes")
    with pytest.raises(NotVerified):
        await both[SecretStores].verify(world.owner)

    assert await both[SecretStores].copy(world.owner, "kubernetes") == 1
    assert await both[SecretStores].copy(world.owner, "kubernetes") == 0
    assert await both[SecretStores].verify(world.owner) == 1
    assert await there[SecretStores].drop(world.owner, "database") == 1
    assert (await world.row())["ciphertext"] is None
    assert await world.reveal(there) == VALUE
    with pytest.raises(NotVerified):
        await both[SecretStores].verify(world.owner)

    assert await both[SecretStores].copy(world.owner, "database") == 1
    assert await both[SecretStores].verify(world.owner) == 1
    here = world.server("database")
    assert await here[SecretStores].drop(world.owner, "kubernetes") == 1
    assert world.kept() == []
    assert await world.reveal(here) == VALUE


async def test_a_store_that_is_used_is_neither_dropped_nor_a_copys_only_aim(world: World) -> None:
    both = world.server("both")
    await world.set(both)

    for side in ("database", "kubernetes"):
        with pytest.raises(WrongStore):
            await both[SecretStores].drop(world.owner, side)
    with pytest.raises(WrongStore):
        await world.server("database")[SecretStores].copy(world.owner, "kubernetes")


def _gone(world: World) -> None:
    for key in world.objects:
        del world.fake.objects[key]


def _changed(world: World) -> None:
    (secret,) = world.objects.values()
    secret["data"]["LINEAR_API_KEY"] = base64.b64encode(b"somebody else's").decode()


def _made_anew(world: World) -> None:
    (secret,) = world.objects.values()
    secret["metadata"]["uid"] = "another"


@pytest.mark.parametrize("harm", [_gone, _changed, _made_anew])
async def test_what_was_done_to_values_in_the_cluster_is_found_and_nothing_dropped(
    world: World, harm: Callable[[World], None]
) -> None:
    both = world.server("both")
    await world.set(both)
    before = await world.row()
    harm(world)

    with pytest.raises(NotVerified) as found:
        await both[SecretStores].verify(world.owner)
    with pytest.raises(Conflict):
        await world.server("kubernetes")[SecretStores].drop(world.owner, "database")

    assert "LINEAR_API_KEY" in found.value.message
    assert VALUE not in found.value.message
    assert await world.row() == before
    assert await both[SecretStores].copy(world.owner, "kubernetes") == 1
    assert await both[SecretStores].verify(world.owner) == 1


async def test_another_master_key_leaves_values_in_the_cluster_as_they_are(world: World) -> None:
    both, there = world.server("both"), world.server("kubernetes")
    await world.set(both)
    await world.set(there, "only there", "OTHER")

    assert await both.secrets.change_master_key(world.owner) == 1

    assert await world.reveal(both) == VALUE
    assert await world.reveal(there, "OTHER") == "only there"


async def test_the_database_and_the_audit_have_no_trace_of_a_value(world: World, tmp_path: Path) -> None:
    server = world.server("kubernetes")
    await world.set(server)
    await world.reveal(server)

    page = await server.audit.list(world.owner, limit=200)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert VALUE.encode() not in content, file
            assert base64.b64encode(VALUE.encode()) not in content, file
    assert VALUE not in str(page.items)


@pytest.mark.slow
@pytest.mark.contract("XA-3")
@pytest.mark.parametrize(("where", "is_referred_to"), [("kubernetes", True), ("both", True), ("database", False)])
async def test_a_pod_refers_to_the_workspaces_own_secret_where_the_cluster_has_it(
    world: World, monkeypatch: pytest.MonkeyPatch, where: str, is_referred_to: bool
) -> None:
    needs_root()
    server = world.server(where, runtime="kubernetes")
    tool = {"name": "extra", "description": "Told by the value.", "inputSchema": {"type": "object"}}
    await world.set(server, json.dumps([tool]))
    own = {name for _, _, name in world.objects}
    seen: list[dict[str, Any]] = []
    world.fake.refuse = lambda method, path: seen.extend(world.fake.pods)

    with in_a_place_of_its_own(monkeypatch):
        probed = await enrolled(server, world.owner, world.workspace_id, MORE="${LINEAR_API_KEY}")
    await server[Runtime].close()

    assert "extra" in [each.name for each in probed.tools]
    references = [
        env["valueFrom"]["secretKeyRef"]
        for pod in seen
        for container in pod["spec"]["containers"]
        for env in container.get("env", ())
        if env["name"] == "MORE"
    ]
    assert references and ({each["name"] for each in references} == own) == is_referred_to
    assert {each["key"] for each in references} == ({"LINEAR_API_KEY"} if is_referred_to else {"mcp-demo.MORE"})
    # What was made for the pod alone went with it; the workspace's stayed.
    assert {name for _, _, name in world.objects} == own
